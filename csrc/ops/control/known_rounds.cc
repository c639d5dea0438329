#include "ops/control/known_rounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "ops/definition/op_def.h"
#include "ops/interpreter/interpreter.h"
#include "ops/reference_tensor.h"
#include "support/interruption.h"

namespace ipu::ops {
namespace {

constexpr int64_t kMostElements = 16;
constexpr size_t kMostOps = 64;  // of what is computed in a round

// The ops that one value follows from, in their order, and the inputs that they read.
class Slice {
 public:
  Slice(const ir::Graph& graph, const ir::Value* result) : result_(result) {
    std::set<const ir::Value*> wanted{result};
    for (auto at = graph.ops().rbegin(); at != graph.ops().rend() && is_known_; ++at) {
      const ir::Op& op = **at;
      bool is_wanted = false;
      for (int i = 0; i < op.result_count(); ++i) is_wanted = is_wanted || wanted.contains(op.result(i));
      if (!is_wanted) continue;
      ops_.insert(ops_.begin(), &op);
      is_known_ = ops_.size() <= kMostOps && can_evaluate(op);
      for (int i = 0; i < op.operand_count(); ++i)
        if (op.operand(i) != nullptr) wanted.insert(op.operand(i));
    }
    for (const ir::Value* value : wanted)
      if (value->producer() == nullptr) inputs_.insert(value->index());
  }

  bool is_known() const { return is_known_ && result_->type().elements() <= kMostElements; }
  const std::set<int>& inputs() const { return inputs_; }

  ReferenceTensor evaluate(const ir::Graph& graph, const std::vector<ReferenceTensor>& carried) const {
    std::unordered_map<const ir::Value*, ReferenceTensor> values;
    for (const int i : inputs_)
      values.emplace(graph.inputs()[static_cast<size_t>(i)], carried[static_cast<size_t>(i)]);
    for (const ir::Op* op : ops_) {
      if (op->is("constant")) {
        values.emplace(op->result(), ReferenceTensor::from_constant(*op->attributes.constant("value")));
        continue;
      }
      std::vector<const ReferenceTensor*> operands;
      for (int i = 0; i < op->operand_count(); ++i)
        operands.push_back(op->operand(i) == nullptr ? nullptr : &values.at(op->operand(i)));
      std::vector<ReferenceTensor> results = interpret_op(*op, operands, Arithmetic::kNative);
      for (int i = 0; i < op->result_count(); ++i)
        values.emplace(op->result(i), std::move(results[static_cast<size_t>(i)]));
    }
    return values.at(result_);
  }

 private:
  static bool can_evaluate(const ir::Op& op) {
    const OpDef* def = definition(op);
    const bool has_value = op.is("constant") || (def != nullptr && def->reference && !def->has(kRandom) &&
                                                 !def->has(kSideEffects));
    for (int i = 0; i < op.result_count(); ++i)
      if (op.result(i)->type().elements() > kMostElements) return false;
    return has_value;
  }

  const ir::Value* result_;
  std::vector<const ir::Op*> ops_;
  std::set<int> inputs_;
  bool is_known_ = true;
};

// Numbers that are computed to learn how a loop goes on; what it is for is more than those.
bool is_counter(const ConstantData& start) {
  return !is_floating_point(start.dtype) && element_count(start.shape) <= kMostElements;
}

}  // namespace

std::optional<KnownRounds> known_rounds(const ir::Graph& condition, const ir::Graph& body,
                                        const std::vector<ConstantPtr>& starts, int64_t most) {
  const Slice goes_on(condition, condition.outputs()[0]);
  if (!goes_on.is_known()) return std::nullopt;
  // What follows from constants and each other alone; what does not falls out until no more does.
  std::map<int, Slice> counters;
  std::vector<ReferenceTensor> values(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] == nullptr || !is_counter(*starts[i])) continue;
    Slice next(body, body.outputs()[i]);
    if (next.is_known()) counters.emplace(static_cast<int>(i), std::move(next));
    values[i] = ReferenceTensor::from_constant(*starts[i]);
  }
  const auto is_open = [&](const Slice& slice) {
    return std::any_of(slice.inputs().begin(), slice.inputs().end(),
                       [&](int input) { return !counters.contains(input); });
  };
  while (std::erase_if(counters, [&](const auto& entry) { return is_open(entry.second); }) > 0) continue;
  if (is_open(goes_on)) return std::nullopt;
  for (int64_t rounds = 0; rounds <= most; ++rounds) {
    if (goes_on.evaluate(condition, values).values[0] == 0.0) {
      KnownRounds known{rounds, {}};
      for (const auto& [i, slice] : counters) known.ends[i] = values[static_cast<size_t>(i)].to_constant();
      return known;
    }
    poll_interruption();
    std::vector<ReferenceTensor> next = values;
    for (const auto& [i, slice] : counters) next[static_cast<size_t>(i)] = slice.evaluate(body, values);
    values = std::move(next);
  }
  return std::nullopt;
}

}  // namespace ipu::ops
