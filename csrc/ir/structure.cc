#include "ir/structure.h"

#include <algorithm>
#include <array>

namespace ipu::ir {

bool is_structural(const Op& op) {
  using namespace kind;
  constexpr std::array kinds{kCall,    kLoop,     kIf,      kPipeline,   kVariableRead, kVariableAssign, kHostLoad,
                             kHostStore, kRingPush, kRingPop, kIpuCopy,   kRemoteLoad,   kRemoteStore,    kConstant,
                             kRngContext, kWrite};
  return std::find(kinds.begin(), kinds.end(), op.kind()) != kinds.end();
}

bool has_side_effects(const Op& op) {
  using namespace kind;
  constexpr std::array kinds{kVariableAssign, kHostLoad, kHostStore, kRingPush, kRingPop, kRemoteStore, kWrite};
  if (std::find(kinds.begin(), kinds.end(), op.kind()) != kinds.end()) return true;
  if (op.attributes.has("modified")) return true;
  for (Graph* graph : called_graphs(op))
    for (const auto& inner : graph->ops())
      if (has_side_effects(*inner)) return true;
  return false;
}

std::vector<Graph*> called_graphs(const Op& op) {
  std::vector<Graph*> graphs;
  auto add = [&](std::string_view name) {
    if (const Attribute* value = op.attributes.find(name))
      if (const auto* symbol = std::get_if<Symbol>(value))
        if (Graph* graph = op.graph()->module()->find_graph(symbol->name)) graphs.push_back(graph);
  };
  if (op.is(kind::kCall)) add("callee");
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
