#include "passes/semantic/recomputation_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "ir/regions.h"
#include "ops/definition/effects.h"
#include "ops/replicable.h"

namespace ipu::passes {
namespace {

using ir::RecomputationMode;
using ir::Value;
using Region = RecomputationPlan::Region;

// --- what is recomputed

bool is_backward(const ir::Op& op) { return op.settings.context == ir::Context::kBackward; }

// Can be done again at all, and nobody asked for its results to be kept.
bool may_repeat(const ir::Op& op) {
  if (op.settings.context != ir::Context::kForward || op.settings.recompute == ir::Recompute::kCheckpoint)
    return false;
  return !ir::is_structural(op) && !ops::has_side_effects(op);
}

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

// --- one graph with both passes

// Cheap next to what they save: everything but products, convolutions and the like.
bool is_norm_or_pointwise(const ir::Op& op) {
  const ops::OpDef* def = ops::definition(op);
  return def != nullptr && !def->has(static_cast<ops::Trait>(ops::kExpensive | ops::kMatmul |
                                                             ops::kConvolution | ops::kPooling));
}

// Standard: about as many pieces as there are ops in a piece; what crosses a border is kept.
std::unordered_map<const ir::Op*, size_t> pieces_of(const ir::Graph& graph) {
  std::vector<const ir::Op*> ops;
  for (const auto& op : graph.ops())
    if (may_repeat(*op)) ops.push_back(op.get());
  const auto length = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(ops.size()))));
  std::unordered_map<const ir::Op*, size_t> pieces;
  for (size_t i = 0; i < ops.size(); ++i) pieces[ops[i]] = i / std::max<size_t>(length, 1);
  return pieces;
}

std::unordered_set<const Value*> crossing(const std::unordered_map<const ir::Op*, size_t>& pieces) {
  std::unordered_set<const Value*> values;
  for (const auto& [op, piece] : pieces)
    for (int i = 0; i < op->result_count(); ++i)
      for (const ir::Use& use : op->result(i)->uses())
        if (auto at = pieces.find(use.user); at != pieces.end() && at->second != piece)
          values.insert(op->result(i));
  return values;
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
  if (strategy_.recomputation == RecomputationMode::kNone) return;
  bool has_pipeline = false;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      if (op->is(ir::kind::kPipeline)) {
        has_pipeline = true;
        const std::vector<ir::Graph*> bodies = ir::called_graphs(*op);
        if (bodies.size() == 1) plan_pipeline(*op, *bodies[0]);
      }
  if (!has_pipeline && strategy_.recomputation != RecomputationMode::kPipeline)
    for (const auto& graph : module.graphs()) plan_graph(*graph);
  drop_what_does_not_pay();
}

// Each backward stage repeats its forward stage; the last forward stage, which is the first backward one,
// keeps nothing from cycle to cycle.
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
  std::map<int, Region> regions;
  std::map<int, std::unordered_set<const Value*>> seen;
  for (const auto& op : body.ops()) {
    if (!is_backward(*op) || !op->settings.stage.has_value() ||
        *op->settings.stage < strategy_.forward_stages)
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
  InGraph plan{&body, {}};
  for (auto& [stage, region] : regions) {
    const auto mirrored = static_cast<int>(2 * strategy_.forward_stages - 2 - stage);
    region.copies = stage - mirrored + 1;
    close(
        region,
        [&](const ir::Op& op) { return may_repeat(op) && op.settings.stage == std::optional(mirrored); },
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
  std::unordered_set<const Value*> borders;
  if (strategy_.recomputation == RecomputationMode::kStandard) borders = crossing(pieces_of(graph));
  std::map<int, Region> regions;
  std::map<int, std::unordered_set<const Value*>> seen;
  for (const auto& op : graph.ops()) {
    if (!is_backward(*op)) continue;
    const int ipu = op->settings.ipu.value_or(0);
    note_reads(regions[ipu], *op, seen[ipu], [&](const Value* value) {
      return !is_free(value) && value->producer()->settings.context == ir::Context::kForward;
    });
  }
  InGraph plan{&graph, {}};
  for (auto& [ipu, region] : regions) {
    auto repeatable = [&, ipu = ipu](const ir::Op& op) {
      if (!may_repeat(op) || op.settings.ipu.value_or(0) != ipu) return false;
      if (strategy_.recomputation == RecomputationMode::kNormOnly) return is_norm_or_pointwise(op);
      for (int i = 0; i < op.result_count(); ++i)
        if (borders.contains(op.result(i))) return false;
      return true;
    };
    close(region, repeatable, is_free);
    plan.regions.push_back(std::move(region));
  }
  plans_.push_back(std::move(plan));
}

void RecomputationPlan::drop_what_does_not_pay() {
  for (InGraph& plan : plans_)
    for (Region& region : plan.regions) {
      const int64_t all = bytes(region.read, region.copies), kept = bytes(region.kept, region.copies);
      if (kept >= all) region.again.clear();
      bytes_before_ += all;
      bytes_after_ += region.again.empty() ? all : kept;
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
  for (const InGraph& plan : plans_)
    for (const Region& region : plan.regions) {
      if (region.again.empty()) continue;
      for (ir::Op* op : region.again) op->settings.recompute = ir::Recompute::kRecompute;
      changed = execute_region(*plan.graph, region) || changed;
    }
  return changed;
}

}  // namespace ipu::passes
