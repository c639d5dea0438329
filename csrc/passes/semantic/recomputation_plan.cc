#include "passes/semantic/recomputation_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "ir/regions.h"
#include "ops/replicable.h"
#include "passes/semantic/recomputation_rule.h"

namespace ipu::passes {
namespace {

using ir::RecomputationMode;
using ir::Value;
using Region = RecomputationPlan::Region;

// --- what is recomputed

bool is_backward(const ir::Op& op) { return op.settings.context == ir::Context::kBackward; }

// `repeatable` says which forward ops this region may do again; values of `free` cost nothing to have.
template <typename Repeatable, typename Free>
void close(Region& region, Repeatable repeatable, Free is_free) {
  std::unordered_set<const Value*> seen;
  auto look_at = [&](Value* value, std::vector<Value*>& work) {
    if (value == nullptr || is_free(value) || !seen.insert(value).second) return;
    if (value->producer() != nullptr && repeatable(*value->producer())) {
      if (region.again.insert(value->producer()).second) work.push_back(value);
    } else if (region.is_kept.insert(value).second) {
      region.kept.push_back(value);
    }
  };
  std::vector<Value*> work;
  for (Value* value : region.read) look_at(value, work);
  while (!work.empty()) {
    const ir::Op& op = *work.back()->producer();
    work.pop_back();
    for (int i = 0; i < op.operand_count(); ++i) look_at(op.operand(i), work);
  }
}

int64_t bytes(const std::vector<Value*>& values, int64_t copies) {
  int64_t sum = 0;
  for (const Value* value : values) sum += value->type().bytes() * copies;
  return sum;
}

// Adds what `op` reads of the forward pass, as far as `is_read` says it counts.
template <typename IsRead>
void note_reads(Region& region, ir::Op& op, std::unordered_set<const Value*>& seen, IsRead is_read) {
  region.readers.push_back(&op);
  for (int i = 0; i < op.operand_count(); ++i)
    if (Value* value = op.operand(i); value != nullptr && is_read(value) && seen.insert(value).second)
      region.read.push_back(value);
}

// --- carrying it out

// Depth first with a list of its own: chains of a network are longer than a stack should be.
Value* cloned(Value* wanted, ir::Op& reader, ir::Graph& graph, const Region& region,
              std::unordered_map<const Value*, Value*>& clones) {
  std::vector<Value*> work{wanted};
  while (!work.empty()) {
    Value* value = work.back();
    if (clones.contains(value)) {
      work.pop_back();
      continue;
    }
    const ir::Op& op = *value->producer();
    std::vector<Value*> operands;
    const size_t depth = work.size();
    for (int i = 0; i < op.operand_count(); ++i) {
      Value* operand = op.operand(i);
      if (operand == nullptr || operand->producer() == nullptr ||
          !region.again.contains(operand->producer())) {
        operands.push_back(operand);
      } else if (auto at = clones.find(operand); at != clones.end()) {
        operands.push_back(at->second);
      } else {
        work.push_back(operand);
      }
    }
    if (work.size() > depth) continue;  // operands first
    ir::Op* copy = graph.copy(op, operands, &reader);
    copy->settings.context = ir::Context::kBackward;
    copy->settings.stage = reader.settings.stage;
    copy->settings.recompute = ir::Recompute::kRecompute;
    for (int i = 0; i < op.result_count(); ++i) clones[op.result(i)] = copy->result(i);
    work.pop_back();
  }
  return clones.at(wanted);
}

// Clones stand before the first reader that needs them.
bool execute_region(ir::Graph& graph, const Region& region) {
  if (region.again.empty()) return false;
  std::unordered_map<const Value*, Value*> clones;
  for (ir::Op* reader : region.readers)
    for (int i = 0; i < reader->operand_count(); ++i) {
      Value* value = reader->operand(i);
      if (value == nullptr || value->producer() == nullptr || !region.again.contains(value->producer()))
        continue;
      reader->set_operand(i, cloned(value, *reader, graph, region, clones));
    }
  return true;
}

}  // namespace

RecomputationPlan::RecomputationPlan(const ir::Module& module) : strategy_(ir::strategy_of(module)) {
  const bool ops_ask = asks_for_recomputation(module);
  is_asked_for_ = ops_ask || strategy_.recomputation != RecomputationMode::kNone;
  if (!is_asked_for_) return;
  bool has_pipeline = false;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      if (op->is(ir::kind::kPipeline)) {
        has_pipeline = true;
        const std::vector<ir::Graph*> bodies = ir::called_graphs(*op);
        if (bodies.size() == 1) plan_pipeline(*op, *bodies[0]);
      }
  if (!has_pipeline && (ops_ask || strategy_.recomputation != RecomputationMode::kPipeline))
    for (const auto& graph : module.graphs()) plan_graph(*graph);
  add_bytes();
}

// Each backward stage repeats its forward stage. The last forward stage, which is the first backward one, keeps nothing
// from cycle to cycle: it counts only where it repeats something.
void RecomputationPlan::plan_pipeline(const ir::Op& pipeline, ir::Graph& body) {
  const ir::Region loop(pipeline);
  const std::unordered_set<const Value*> replicable =
      ops::find_replicable(body, body.inputs()[static_cast<size_t>(loop.index_input())]);
  auto is_free = [&](const Value* value) {
    if (replicable.contains(value)) return true;
    if (value->producer() != nullptr) return false;
    if (!loop.is_carried_input(value->index())) return true;
    return body.outputs()[static_cast<size_t>(loop.output(loop.operand(value->index())))] == value;
  };
  InGraph plan{&body, find_marked(body, strategy_, true), {}};
  const auto last = static_cast<int>(strategy_.forward_stages - 1);
  const bool repeats_last = std::any_of(plan.marked.begin(), plan.marked.end(), [&](const ir::Op* op) {
    return op->settings.stage == std::optional(last);
  });
  std::map<int, Region> regions;
  std::map<int, std::unordered_set<const Value*>> seen;
  for (const auto& op : body.ops()) {
    if (!is_backward(*op) || !op->settings.stage.has_value() ||
        *op->settings.stage < (repeats_last ? last : last + 1))
      continue;
    const int stage = *op->settings.stage;
    const auto mirrored = static_cast<int>(2 * strategy_.forward_stages - 2 - stage);
    note_reads(regions[stage], *op, seen[stage], [&](const Value* value) {
      const ir::Op* producer = value->producer();
      if (is_free(value) || producer == nullptr || producer->settings.context != ir::Context::kForward)
        return false;
      return producer->settings.stage.value_or(-1) <= mirrored;
    });
  }
  for (auto& [stage, region] : regions) {
    const auto mirrored = static_cast<int>(2 * strategy_.forward_stages - 2 - stage);
    region.copies = stage - mirrored + 1;
    close(
        region,
        [&](ir::Op& op) { return plan.marked.contains(&op) && op.settings.stage == std::optional(mirrored); },
        is_free);
    plan.regions.push_back(std::move(region));
  }
  plans_.push_back(std::move(plan));
}

void RecomputationPlan::plan_graph(ir::Graph& graph) {
  const bool has_backward =
      std::any_of(graph.ops().begin(), graph.ops().end(), [](const auto& op) { return is_backward(*op); });
  if (!has_backward) return;
  const std::unordered_set<const Value*> replicable = ops::find_replicable(graph, nullptr);
  auto is_free = [&](const Value* value) {
    return value->producer() == nullptr || replicable.contains(value);
  };
  std::map<int, Region> regions;
  std::map<int, std::unordered_set<const Value*>> seen;
  for (const auto& op : graph.ops()) {
    if (!is_backward(*op)) continue;
    const int ipu = op->settings.ipu.value_or(0);
    note_reads(regions[ipu], *op, seen[ipu], [&](const Value* value) {
      return !is_free(value) && value->producer()->settings.context == ir::Context::kForward;
    });
  }
  InGraph plan{&graph, find_marked(graph, strategy_, false), {}};
  for (auto& [ipu, region] : regions) {
    close(
        region,
        [&, ipu = ipu](ir::Op& op) {
          return plan.marked.contains(&op) && op.settings.ipu.value_or(0) == ipu;
        },
        is_free);
    plan.regions.push_back(std::move(region));
  }
  plans_.push_back(std::move(plan));
}

void RecomputationPlan::add_bytes() {
  for (const InGraph& plan : plans_)
    for (const Region& region : plan.regions) {
      bytes_before_ += bytes(region.read, region.copies);
      bytes_after_ += bytes(region.again.empty() ? region.read : region.kept, region.copies);
    }
}

int64_t RecomputationPlan::operations() const {
  int64_t sum = 0;
  for (const InGraph& plan : plans_)
    for (const Region& region : plan.regions) sum += static_cast<int64_t>(region.again.size());
  return sum;
}

bool RecomputationPlan::execute() const {
  bool changed = false;
  for (const InGraph& plan : plans_) {
    for (ir::Op* op : plan.marked) {
      changed = changed || op->settings.recompute != ir::Recompute::kRecompute;
      op->settings.recompute = ir::Recompute::kRecompute;
    }
    for (const Region& region : plan.regions) changed = execute_region(*plan.graph, region) || changed;
  }
  return changed;
}

}  // namespace ipu::passes
