// Makes every crossing between IPUs an op: where a value is read on another IPU than its own, one ipu_copy
// per destination, before the first reader. Constants and scalars that follow from loop indices are computed
// again instead. A value that a loop or an `if` only reads is copied in front of it; a carried value has one
// home, the IPU of its start, and comes back to it at the end of the body. Subroutines are done once: their inputs
// have homes of their own, and each call brings its operands there. Not here: placement (place),
// queues of pipelines (pipeline-to-rings), sending of conditions over several IPUs (lowering).
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/regions.h"
#include "ir/subroutine.h"
#include "ops/replicable.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "support/error.h"

namespace ipu::passes {
namespace {

using ir::Value;

constexpr int kEverywhere = -1;  // home of a loop index: every IPU counts for itself

class InsertIpuCopies : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    copies_ = changes_ = 0;
    std::vector<ir::Graph*> roots;
    sites_.clear();
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        for (const ir::Graph* callee : ir::called_graphs(*op)) ++sites_[callee];
    for (const auto& graph : module.graphs())
      if (!sites_.contains(graph.get())) roots.push_back(graph.get());
    // A subroutine says where its inputs lie, once for all calls; those it calls have said so before.
    for (ir::Graph* graph : callees_first(module)) {
      if (!ir::is_subroutine(*graph) || !sites_.contains(graph)) continue;
      for (ir::Value* input : graph->inputs()) {
        home_[input] = input->ipu.value_or(first_ipu(*input));
        changes_ += !input->ipu.has_value();
        input->ipu = home_[input];
      }
      process(*graph, nullptr);
    }
    for (ir::Graph* graph : roots) {
      for (const Value* input : graph->inputs()) home_[input] = input->ipu.value_or(first_ipu(*input));
      process(*graph, nullptr);
    }
    home_.clear();
    variants_.clear();
    demand_.clear();
    context.count("copies", copies_);
    return changes_ > 0;
  }

 private:
  int first_ipu(const Value& value) {
    const std::set<int>& wanted = demand(value);
    return wanted.empty() ? 0 : *wanted.begin();
  }

  // IPUs on which `value`, an input of a graph, is read there or in graphs it is handed to.
  const std::set<int>& demand(const Value& value) {
    auto [at, is_new] = demand_.try_emplace(&value);
    if (!is_new) return at->second;
    std::set<int> wanted;
    for (const ir::Use& use : value.uses()) {
      if (!ir::is_region(*use.user)) {
        if (use.user->settings.ipu.has_value())
          wanted.insert(use.user->is(ir::kind::kIpuCopy)
                            ? static_cast<int>(use.user->attributes.integer("from"))
                            : *use.user->settings.ipu);
        continue;
      }
      const ir::Region region(*use.user);
      if (const ir::Graph* called = ir::called_subroutine(*use.user)) {
        wanted.insert(called->inputs()[use.index]->ipu.value_or(0));
        continue;
      }
      if (use.index == region.condition_operand()) {
        const std::set<int> touched = touched_ipus(*use.user);
        if (touched.size() == 1) wanted.insert(*touched.begin());
        continue;
      }
      if (region.is_carried(use.index)) continue;
      for (const ir::Graph* graph : region.bodies()) {
        const std::set<int>& inner = demand(*graph->inputs()[region.input(use.index)]);
        wanted.insert(inner.begin(), inner.end());
      }
    }
    return demand_[&value] = std::move(wanted);
  }

  static std::set<int> touched_ipus(const ir::Op& op) {
    std::set<int> ipus;
    for (const ir::Graph* graph : ir::called_graphs(op))
      for (const auto& inner : graph->ops()) {
        if (ir::is_region(*inner)) {
          ipus.merge(touched_ipus(*inner));
        } else if (inner->settings.ipu.has_value()) {
          ipus.insert(*inner->settings.ipu);
        }
      }
    return ipus;
  }

  struct Surroundings {
    ir::Graph* graph;
    std::unordered_set<const Value*> replicable;
  };

  // `value` as IPU `ipu` can read it, made before `before` (nullptr: at the end) when there is no such value
  // yet.
  Value* value_on(const Surroundings& scope, Value* value, int ipu, ir::Op* before) {
    const int home = home_.at(value);
    if (home == ipu || home == kEverywhere) return value;
    Value*& variant = variants_[value][ipu];
    if (variant != nullptr) return variant;
    ++changes_;
    ir::Op* op = nullptr;
    const ir::Op* producer = value->producer();
    if (producer != nullptr && scope.replicable.contains(value)) {
      std::vector<Value*> operands;
      for (int i = 0; i < producer->operand_count(); ++i)
        operands.push_back(
            producer->operand(i) == nullptr ? nullptr : value_on(scope, producer->operand(i), ipu, before));
      op = scope.graph->copy(*producer, operands, before);
    } else {
      const ir::Type type = value->type();
      op = scope.graph->create(ir::kind::kIpuCopy, {&value, 1},
                               {{"from", static_cast<int64_t>(home)}, {"to", static_cast<int64_t>(ipu)}},
                               {&type, 1}, before, value->name());
      if (producer != nullptr) {
        op->settings = producer->settings;
        op->location = producer->location;
        op->settings.outline = {};
      }
      ++copies_;
    }
    op->settings.ipu = ipu;
    for (int i = 0; i < op->result_count(); ++i) {
      home_[op->result(i)] = ipu;
      if (producer != nullptr && op->result_count() == producer->result_count() &&
          !op->is(ir::kind::kIpuCopy))
        variants_[producer->result(i)][ipu] = op->result(i);
    }
    return variants_[value][ipu] = op->is(ir::kind::kIpuCopy) ? op->result() : op->result(value->index());
  }

  // Homes of the graph's inputs, and their variants, are known.
  void process(ir::Graph& graph, const Value* index) {
    Surroundings scope{&graph, ops::find_replicable(graph, index)};
    for (auto at = graph.ops().begin(); at != graph.ops().end();) {
      ir::Op& op = **at++;
      if (const ir::Graph* called = ir::called_subroutine(op)) {
        process_call(scope, op, *called);
      } else if (ir::is_region(op)) {
        process_region(scope, op);
      } else {
        process_op(scope, op);
      }
    }
    // Constants whose every reader got a copy of its own.
    for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().back().get(); op != nullptr;) {
      ir::Op* earlier = graph.previous(op);
      bool is_dead = op->result_count() > 0 && scope.replicable.contains(op->result(0)) && op->after.empty();
      for (int i = 0; i < op->result_count(); ++i)
        is_dead = is_dead && op->result(i)->is_unused() && was_replaced(op->result(i));
      if (is_dead) {
        for (int i = 0; i < op->result_count(); ++i) forget(op->result(i));
        graph.erase(op);
      }
      op = earlier;
    }
  }

  // A value that goes: another one may come to lie at its address.
  void forget(const Value* value) {
    home_.erase(value);
    variants_.erase(value);
    demand_.erase(value);
  }

  bool was_replaced(const Value* value) const {
    auto at = variants_.find(value);
    return at != variants_.end() && !at->second.empty();
  }

  void process_op(const Surroundings& scope, ir::Op& op) {
    if (!op.settings.ipu.has_value()) {
      int ipu = kEverywhere;
      for (int i = 0; i < op.operand_count() && ipu == kEverywhere; ++i)
        if (op.operand(i) != nullptr) ipu = home_.at(op.operand(i));
      if (ipu == kEverywhere) ipu = op.result_count() > 0 ? first_ipu(*op.result(0)) : 0;
      op.settings.ipu = ipu;
      ++changes_;
    }
    const int ipu =
        op.is(ir::kind::kIpuCopy) ? static_cast<int>(op.attributes.integer("from")) : *op.settings.ipu;
    for (int i = 0; i < op.operand_count(); ++i) {
      if (op.operand(i) == nullptr) continue;
      Value* here = value_on(scope, op.operand(i), ipu, &op);
      if (here != op.operand(i)) op.set_operand(i, here);
    }
    for (int i = 0; i < op.result_count(); ++i) home_[op.result(i)] = *op.settings.ipu;
  }

  // Each operand goes to where the subroutine reads it; each result is where the subroutine has it.
  void process_call(const Surroundings& scope, ir::Op& op, const ir::Graph& called) {
    for (int i = 0; i < op.operand_count(); ++i) {
      Value* here = value_on(scope, op.operand(i), *called.inputs()[i]->ipu, &op);
      if (here != op.operand(i)) op.set_operand(i, here);
    }
    for (int i = 0; i < op.result_count(); ++i) home_[op.result(i)] = home_.at(called.outputs()[i]);
  }

  void process_region(const Surroundings& scope, ir::Op& op) {
    own_graphs(op);
    IPU_CHECK(!op.is(ir::kind::kPipeline), "pipelines become loops before copies are inserted");
    const ir::Region region(op);
    const std::vector<ir::Graph*> graphs = region.bodies();
    const int operands = op.operand_count();
    if (region.condition_operand() >= 0) place_condition(scope, op);
    for (int i = region.first_operand(); i < operands; ++i) {
      const int input = region.input(i);
      Value* operand = op.operand(i);
      const int home = home_.at(operand);
      std::set<int> wanted;
      for (const ir::Graph* graph : graphs) {
        home_[graph->inputs()[input]] = home;
        const std::set<int>& inner = demand(*graph->inputs()[input]);
        wanted.insert(inner.begin(), inner.end());
      }
      if (home == kEverywhere || region.is_carried(i)) continue;
      for (int ipu : wanted) {
        if (ipu == home) continue;
        Value* here = value_on(scope, operand, ipu, &op);
        op.append_operand(here);
        for (ir::Graph* graph : graphs) {
          Value* variant = graph->add_input(here->type(), here->name());
          home_[variant] = ipu;
          variants_[graph->inputs()[input]][ipu] = variant;
        }
      }
    }
    for (ir::Graph* graph : graphs) {
      const Value* index = nullptr;
      if (region.repeats()) {
        index = graph->inputs()[region.index_input()];
        home_[index] = kEverywhere;
      }
      process(*graph, index);
    }
    if (region.condition_output() >= 0) place_loop_condition(region, *graphs[0]);
    settle_outputs(region, graphs);
    erase_unread_inputs(op, graphs);
  }

  // As that of an `if`.
  void place_loop_condition(const ir::Region& loop, ir::Graph& body) {
    const std::set<int> touched = touched_ipus(loop.op());
    Value* condition = body.outputs()[loop.condition_output()];
    if (home_.at(condition) == kEverywhere) return;
    if (touched.size() != 1) return;
    Value* here = value_on(Surroundings{&body, {}}, condition, *touched.begin(), nullptr);
    if (here != condition) body.set_output(loop.condition_output(), here);
  }

  // The condition is needed where the branches are. Over several IPUs it stays where it is made: lowering sends
  // it to the others.
  void place_condition(const Surroundings& scope, ir::Op& op) {
    const std::set<int> touched = touched_ipus(op);
    if (touched.size() == 1) op.set_operand(0, value_on(scope, op.operand(0), *touched.begin(), &op));
  }

  // Outputs come back to the home of the carried value; those of an `if` to where the first graph has them.
  void settle_outputs(const ir::Region& region, const std::vector<ir::Graph*>& graphs) {
    const ir::Op& op = region.op();
    for (int i = 0; i < op.result_count(); ++i) {
      const int output = region.output(i);
      const int home =
          region.is_carried(i) ? home_.at(op.operand(i)) : home_.at(graphs[0]->outputs()[output]);
      for (ir::Graph* graph : graphs) {
        Value* value = graph->outputs()[output];
        const Surroundings scope{graph, {}};
        Value* settled = home == kEverywhere ? value : value_on(scope, value, home, nullptr);
        if (settled != value) graph->set_output(output, settled);
      }
      home_[op.result(i)] = home;
    }
  }

  void erase_unread_inputs(ir::Op& op, const std::vector<ir::Graph*>& graphs) {
    const ir::Region region(op);
    for (int i = op.operand_count() - 1; region.is_invariant(i); --i) {
      const int input = region.input(i);
      bool is_unread = true;
      bool was_split = false;
      for (const ir::Graph* graph : graphs) {
        is_unread = is_unread && graph->inputs()[input]->is_unused();
        was_split = was_split || was_replaced(graph->inputs()[input]);
      }
      if (!is_unread || !was_split) continue;
      for (ir::Graph* graph : graphs) {
        forget(graph->inputs()[input]);
        graph->erase_input(input);
      }
      op.erase_operand(i);
    }
  }

  // Copies differ from site to site, so each site gets graphs of its own.
  void own_graphs(ir::Op& op) {
    const std::vector<ir::Graph*> graphs = ir::called_graphs(op);
    for (size_t i = 0; i < graphs.size(); ++i) {
      if (--sites_[graphs[i]] == 0) continue;
      ++changes_;
      ir::Graph* copy = op.graph()->module()->clone_graph(*graphs[i], graphs[i]->name());
      sites_[copy] = 1;
      for (const auto& inner : copy->ops())
        for (const ir::Graph* callee : ir::called_graphs(*inner)) ++sites_[callee];
      ir::set_body(op, static_cast<int>(i), *copy);
    }
  }

  std::unordered_map<const Value*, int> home_;
  std::unordered_map<const Value*, std::map<int, Value*>> variants_;
  std::unordered_map<const Value*, std::set<int>> demand_;
  std::unordered_map<const ir::Graph*, int> sites_;
  int64_t copies_ = 0, changes_ = 0;
};

IPU_REGISTER_PASS(InsertIpuCopies, "insert-ipu-copies", "Copies values to the IPUs that read them.",
                  {"copies"});

}  // namespace
}  // namespace ipu::passes
