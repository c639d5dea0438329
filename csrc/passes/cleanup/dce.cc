// Removes what nobody needs: ops without readers, values a loop carries for nothing, results and inputs of
// called graphs that no call site uses, graphs that no entry point reaches. Keeps ops with effects, opaque
// ops, entry graphs as they are, and every table: variables and streams are the program's face to the host.
// Interfaces change only where all call sites are known and of one kind: calls, or one loop, one pipeline of
// a single stage graph, one if; and only in graphs somebody calls.
#include <unordered_set>

#include "ir/regions.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

bool is_unused(const ir::Op& op) {
  for (int i = 0; i < op.result_count(); ++i)
    if (!op.result(i)->is_unused()) return false;
  return true;
}

class Dce : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    module_ = &module;
    context_ = &context;
    for (const auto& graph : module.graphs())
      if (has_order_edges(*graph)) ordered_.insert(graph.get());
    bool changed = false;
    // A round from callers to callees (results nobody reads) and back (inputs nobody reads). Each further
    // round needs something removed in the one before; a few suffice.
    for (bool again = true; again;) {
      again = round();
      changed = changed || again;
    }
    return changed;
  }

 private:
  bool round() {
    bool changed = erase_unreached();
    if (changed || effects_ == nullptr) {  // a graph may have lost its last effect with what is gone
      effects_ = std::make_unique<Effects>(*module_);
      for (const auto& graph : module_->graphs()) stale_.insert(graph.get());
    }
    sites_ = find_call_sites(*module_);
    entries_.clear();
    for (const auto& [name, graph] : module_->entry_points) entries_.insert(graph);
    std::vector<ir::Graph*> order = callees_first(*module_);
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      changed = shrink_results(**at) || changed;
      changed = erase_unused(**at) || changed;
    }
    for (ir::Graph* graph : order) {
      changed = erase_unused(*graph) || changed;
      changed = shrink_inputs(*graph) || changed;
    }
    return changed;
  }

  // From the last op to the first: an op's readers are gone before it is looked at. Looks only at graphs where
  // a value may have lost a reader since it looked last.
  bool erase_unused(ir::Graph& graph) {
    if (ordered_.contains(&graph) || stale_.erase(&graph) == 0) return false;
    bool changed = false;
    std::unordered_set<const ir::Op*> gone;  // sites of other graphs
    std::vector<const ir::Graph*> callees;   // of them, each once
    std::unordered_set<const ir::Graph*> seen;
    ir::Op* previous = nullptr;
    for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().back().get(); op != nullptr;
         op = previous) {
      poll_interruption();
      previous = graph.previous(op);
      if (!is_unused(*op) || !effects_->is_removable(*op)) continue;
      for (const ir::Graph* callee : ir::called_graphs(*op)) {
        gone.insert(op);
        if (seen.insert(callee).second) callees.push_back(callee);
      }
      graph.erase(op);
      context_->count("ops removed");
      changed = true;
    }
    for (const ir::Graph* callee : callees)
      std::erase_if(sites_[callee], [&gone](const ir::Op* site) { return gone.contains(site); });
    return changed;
  }
  void erase_output(ir::Graph& graph, int i) {
    graph.erase_output(i);
    stale_.insert(&graph);
  }
  void erase_operand(ir::Op& op, int i) {
    op.erase_operand(i);
    stale_.insert(op.graph());
  }

  // The op that stands for all uses of `graph` as a region (loop, pipeline of one stage, if); nullptr when
  // there is none.
  ir::Op* only_site(const ir::Graph& graph) {
    auto at = sites_.find(&graph);
    if (at == sites_.end() || at->second.size() != 1 || entries_.contains(graph.name())) return nullptr;
    return at->second[0];
  }
  bool runs_one_body(const ir::Op& op) {
    const ir::Region region(op);
    return region.repeats() && region.bodies().size() == 1;
  }
  bool is_called_only(const ir::Graph& graph) {
    auto at = sites_.find(&graph);
    if (at == sites_.end() || at->second.empty() || entries_.contains(graph.name())) return false;
    for (const ir::Op* site : at->second)
      if (!ir::is_call(*site) || site->attributes.has("modified")) return false;
    return true;
  }

  // --- results

  bool shrink_results(ir::Graph& graph) {
    if (is_called_only(graph)) return shrink_call_results(graph);
    ir::Op* site = only_site(graph);
    if (site == nullptr || site->attributes.has("modified")) return false;
    if (runs_one_body(*site)) return drop_dead_carried(*site, graph);
    if (site->is(ir::kind::kIf)) return shrink_if_results(*site, graph);
    return false;
  }

  bool shrink_call_results(ir::Graph& graph) {
    bool changed = false;
    for (int i = static_cast<int>(graph.outputs().size()) - 1; i >= 0; --i) {
      bool read = false;
      for (const ir::Op* site : sites_[&graph])
        read = read || (i < site->result_count() && !site->result(i)->is_unused());
      if (read) continue;
      for (ir::Op* site : sites_[&graph])
        if (i < site->result_count()) site->erase_result(i);
      erase_output(graph, i);
      context_->count("results removed");
      changed = true;
    }
    return changed;
  }

  // Both branches shrink together; done when the `then` graph is visited.
  bool shrink_if_results(ir::Op& op, ir::Graph& graph) {
    std::vector<ir::Graph*> branches = ir::called_graphs(op);
    if (branches.size() != 2 || branches[0] == branches[1] || only_site(*branches[0]) != &op ||
        only_site(*branches[1]) != &op)
      return false;
    bool changed = false;
    for (int i = op.result_count() - 1; i >= 0; --i) {
      if (!op.result(i)->is_unused()) continue;
      op.erase_result(i);
      for (ir::Graph* branch : branches) erase_output(*branch, i);
      context_->count("results removed");
      changed = true;
    }
    return changed;
  }

  // A carried value lives if its result is read, or if it is needed for a carried value that lives, for the
  // condition or for an effect.
  bool drop_dead_carried(ir::Op& op, ir::Graph& body) {
    const ir::Region region(op);
    const int carried = region.carried();
    auto next_value = [&](int i) { return body.outputs()[static_cast<size_t>(region.output(i))]; };
    bool all_read = true;
    for (int i = 0; i < carried; ++i) all_read = all_read && !op.result(i)->is_unused();
    if (all_read) return false;
    std::unordered_set<const ir::Value*> needed;
    std::vector<const ir::Value*> queue;
    auto need = [&](const ir::Value* value) {
      if (value != nullptr && needed.insert(value).second) queue.push_back(value);
    };
    auto need_operands = [&](const ir::Op& user) {
      for (int i = 0; i < user.operand_count(); ++i) need(user.operand(i));
    };
    for (const auto& inner : body.ops())
      if (!effects_->is_removable(*inner)) need_operands(*inner);
    if (region.condition_output() >= 0) need(body.outputs()[static_cast<size_t>(region.condition_output())]);
    for (int i = 0; i < carried; ++i)
      if (!op.result(i)->is_unused()) need(next_value(i));
    while (!queue.empty()) {
      const ir::Value* value = queue.back();
      queue.pop_back();
      if (value->producer() != nullptr)
        need_operands(*value->producer());
      else if (region.is_carried_input(value->index()))
        need(next_value(region.operand(value->index())));
    }
    if (ordered_.contains(&body)) return false;
    std::vector<bool> dead(static_cast<size_t>(carried));
    bool changed = false;
    for (int i = 0; i < carried; ++i) {
      dead[static_cast<size_t>(i)] =
          op.result(i)->is_unused() && !needed.contains(body.inputs()[static_cast<size_t>(region.input(i))]);
      changed = changed || dead[static_cast<size_t>(i)];
    }
    for (int i = carried - 1; i >= 0; --i)
      if (dead[static_cast<size_t>(i)]) erase_output(body, region.output(i));
    if (!changed) return false;
    erase_unused(body);  // what made them: now the inputs have no reader left
    int left = carried;
    for (int i = carried - 1; i >= 0; --i) {
      if (!dead[static_cast<size_t>(i)]) continue;
      body.erase_input(region.input(i));
      erase_operand(op, i);
      op.erase_result(i);
      --left;
      context_->count("carried values removed");
    }
    op.attributes.set("carried", int64_t{left});
    return true;
  }

  // --- inputs

  bool shrink_inputs(ir::Graph& graph) {
    if (is_called_only(graph)) return shrink_call_inputs(graph);
    ir::Op* site = only_site(graph);
    if (site == nullptr || site->attributes.has("modified")) return false;
    if (runs_one_body(*site)) return shrink_invariants(*site, graph);
    if (site->is(ir::kind::kIf)) return shrink_if_inputs(*site);
    return false;
  }

  bool shrink_call_inputs(ir::Graph& graph) {
    bool changed = false;
    for (int i = static_cast<int>(graph.inputs().size()) - 1; i >= 0; --i) {
      const ir::Value* input = graph.inputs()[static_cast<size_t>(i)];
      if (!input->is_unused() || input->by_reference) continue;
      graph.erase_input(i);
      for (ir::Op* site : sites_[&graph]) erase_operand(*site, i);
      context_->count("inputs removed");
      changed = true;
    }
    return changed;
  }

  bool shrink_invariants(ir::Op& op, ir::Graph& body) {
    const ir::Region region(op);
    bool changed = false;
    for (int i = op.operand_count() - 1; region.is_invariant(i); --i) {
      const int input = region.input(i);
      if (!body.inputs()[static_cast<size_t>(input)]->is_unused()) continue;
      body.erase_input(input);
      erase_operand(op, i);
      context_->count("inputs removed");
      changed = true;
    }
    return changed;
  }

  bool shrink_if_inputs(ir::Op& op) {
    std::vector<ir::Graph*> branches = ir::called_graphs(op);
    if (branches.size() != 2 || branches[0] == branches[1] || only_site(*branches[0]) != &op ||
        only_site(*branches[1]) != &op)
      return false;
    bool changed = false;
    const ir::Region region(op);
    for (int i = op.operand_count() - 1; region.is_invariant(i); --i) {
      const int input = region.input(i);
      bool read = false;
      for (ir::Graph* branch : branches)
        read = read || !branch->inputs()[static_cast<size_t>(input)]->is_unused();
      if (read) continue;
      for (ir::Graph* branch : branches) branch->erase_input(input);
      erase_operand(op, i);
      context_->count("inputs removed");
      changed = true;
    }
    return changed;
  }

  // --- graphs

  // Without entry points every graph may be meant.
  bool erase_unreached() {
    if (module_->entry_points.empty()) return false;
    std::unordered_set<const ir::Graph*> reached;
    std::vector<const ir::Graph*> queue;
    auto reach = [&](const ir::Graph* graph) {
      if (graph != nullptr && reached.insert(graph).second) queue.push_back(graph);
    };
    for (const auto& [name, graph] : module_->entry_points) reach(module_->find_graph(graph));
    while (!queue.empty()) {
      const ir::Graph* graph = queue.back();
      queue.pop_back();
      for (const auto& op : graph->ops())
        for (const ir::Graph* callee : ir::called_graphs(*op)) reach(callee);
    }
    std::vector<ir::Graph*> dead;
    for (const auto& graph : module_->graphs())
      if (!reached.contains(graph.get())) dead.push_back(graph.get());
    for (ir::Graph* graph : dead) {
      module_->erase_graph(graph);
      context_->count("graphs removed");
    }
    if (!dead.empty()) erase_stale_code_loads(*module_);
    return !dead.empty();
  }

  ir::Module* module_ = nullptr;
  const PassContext* context_ = nullptr;
  std::unique_ptr<Effects> effects_;
  CallSites sites_;
  std::unordered_set<std::string> entries_;
  std::unordered_set<const ir::Graph*> stale_;    // a value may have lost a reader
  std::unordered_set<const ir::Graph*> ordered_;  // has order edges: its ops stay
};

IPU_REGISTER_PASS(Dce, "dce", "Removes ops, results, inputs and graphs that nobody needs.",
                  {"ops removed", "results removed", "inputs removed", "carried values removed",
                   "graphs removed"});

}  // namespace
}  // namespace ipu::passes
