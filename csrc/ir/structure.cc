#include "ir/structure.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace ipu::ir {

bool is_structural(const Op& op) {
  using namespace kind;
  constexpr std::array kinds{kCall,           kLoop,          kIf,          kPipeline,    kVariableRead,
                             kVariableAssign, kHostLoad,      kHostStore,   kRingPush,    kRingPop,
                             kIpuCopy,        kRemoteLoad,    kRemoteStore, kConstant,    kRngContext,
                             kWrite,          kMultiExchange, kCodeLoad,    kReplicaIndex};
  return std::find(kinds.begin(), kinds.end(), op.kind()) != kinds.end();
}

bool is_call(const Op& op) { return op.is(kind::kCall) || op.is(kind::kMultiExchange); }

bool is_transfer(const Op& op) {
  using namespace kind;
  return op.is(kHostLoad) || op.is(kHostStore) || op.is(kRemoteLoad) || op.is(kRemoteStore) ||
         op.is(kCodeLoad) || op.is(kMultiExchange);
}

bool has_side_effects(const Op& op) {
  using namespace kind;
  constexpr std::array kinds{kVariableAssign, kHostLoad,    kHostStore, kRingPush,
                             kRingPop,        kRemoteStore, kWrite,     kCodeLoad};
  if (std::find(kinds.begin(), kinds.end(), op.kind()) != kinds.end()) return true;
  if (op.attributes.has("modified")) return true;
  // Each called graph once, with a list instead of recursion: graphs may share callees and call each other
  // deeply.
  std::vector<Graph*> graphs = called_graphs(op);
  std::unordered_set<const Graph*> seen(graphs.begin(), graphs.end());
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const auto& inner : graphs[i]->ops()) {
      if (std::find(kinds.begin(), kinds.end(), inner->kind()) != kinds.end() ||
          inner->attributes.has("modified"))
        return true;
      for (Graph* callee : called_graphs(*inner))
        if (seen.insert(callee).second) graphs.push_back(callee);
    }
  }
  return false;
}

std::vector<Graph*> called_graphs(const Op& op) {
  std::vector<Graph*> graphs;
  auto add = [&](std::string_view name) {
    if (const Attribute* value = op.attributes.find(name))
      if (const auto* symbol = std::get_if<Symbol>(value))
        if (Graph* graph = op.graph()->module()->find_graph(symbol->name)) graphs.push_back(graph);
  };
  if (is_call(op)) add("callee");
  if (op.is(kind::kLoop)) add("body");
  if (op.is(kind::kIf)) {
    add("then");
    add("else");
  }
  if (op.is(kind::kPipeline))
    if (const Attribute* value = op.attributes.find("stages"))
      if (const auto* symbols = std::get_if<std::vector<Symbol>>(value))
        for (const Symbol& symbol : *symbols)
          if (Graph* graph = op.graph()->module()->find_graph(symbol.name)) graphs.push_back(graph);
  return graphs;
}

}  // namespace ipu::ir
