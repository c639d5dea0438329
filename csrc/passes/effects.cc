#include "passes/effects.h"

#include <algorithm>

#include "ir/structure.h"
#include "ops/definition/effects.h"

namespace ipu::passes {

std::vector<ir::Graph*> callees_first(const ir::Module& module) {
  struct Frame {
    ir::Graph* graph;
    std::vector<ir::Graph*> callees;
    size_t next = 0;
  };
  std::vector<ir::Graph*> order;
  std::unordered_map<const ir::Graph*, bool> seen;
  std::vector<Frame> stack;
  auto enter = [&](ir::Graph* graph) {
    if (!seen.emplace(graph, true).second) return;
    std::vector<ir::Graph*> callees;
    for (const auto& op : graph->ops())
      for (ir::Graph* callee : ir::called_graphs(*op)) callees.push_back(callee);
    stack.push_back({graph, std::move(callees)});
  };
  for (const auto& graph : module.graphs()) {
    enter(graph.get());
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.callees.size()) {
        enter(top.callees[top.next++]);
      } else {
        order.push_back(top.graph);
        stack.pop_back();
      }
    }
  }
  return order;
}

CallSites find_call_sites(const ir::Module& module) {
  CallSites sites;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      for (const ir::Graph* callee : ir::called_graphs(*op)) sites[callee].push_back(op.get());
  return sites;
}

bool has_order_edges(const ir::Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(),
                     [](const auto& op) { return !op->after.empty() || op->attributes.has(ir::kInPlace); });
}

std::string assigned_buffer(const ir::Op& op) {
  if (!op.is(ir::kind::kVariableAssign)) return "";
  const ir::Variable* variable = op.graph()->module()->find_variable(op.attributes.symbol("variable").name);
  return variable == nullptr ? "" : variable->remote_buffer;
}

void erase_stale_code_loads(ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    std::vector<ir::Op*> stale;
    for (const auto& op : graph->ops())
      if (op->is(ir::kind::kCodeLoad) && module.find_graph(op->attributes.symbol("graph").name) == nullptr)
        stale.push_back(op.get());
    for (ir::Op* op : stale) graph->erase(op);
  }
}

Effects::Effects(const ir::Module& module) {
  for (const ir::Graph* graph : callees_first(module)) {
    Level worst = Level::kPure;
    for (const auto& op : graph->ops()) worst = std::max(worst, level(*op));
    graphs_[graph] = worst;
  }
}

Effects::Level Effects::level(const ir::Op& op) const {
  const ir::StateEffect state = ops::state_effect(op);
  if (state >= ir::StateEffect::kChanges) return Level::kEffects;
  if (!ir::is_structural(op)) {
    if (ops::in_place_operand(op) >= 0) return Level::kEffects;
  } else if (const ir::Effects alone = ops::effects(op); !alone.writes.empty() || !alone.aliases.empty()) {
    return Level::kEffects;
  }
  Level worst = state == ir::StateEffect::kReads ? Level::kReadsState : Level::kPure;
  if (!ir::is_region(op)) return worst;
  for (const ir::Graph* callee : ir::called_graphs(op)) {
    auto at = graphs_.find(callee);
    worst = std::max(worst, at == graphs_.end() ? Level::kEffects : at->second);
  }
  return worst;
}

}  // namespace ipu::passes
