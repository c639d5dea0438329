#include "ops/control/known_rounds.h"

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

}  // namespace

std::optional<int64_t> known_rounds(const ir::Graph& condition, const ir::Graph& body,
                                    const std::vector<ConstantPtr>& starts, int64_t most) {
  const Slice goes_on(condition, condition.outputs()[0]);
  if (!goes_on.is_known()) return std::nullopt;
  std::unordered_map<int, Slice> counters;
  std::vector<int> open(goes_on.inputs().begin(), goes_on.inputs().end());
  std::vector<ReferenceTensor> values(starts.size());
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (counters.contains(i)) continue;
    const auto at = static_cast<size_t>(i);
    if (at >= starts.size() || starts[at] == nullptr || element_count(starts[at]->shape) > kMostElements)
      return std::nullopt;
    const Slice& next = counters.emplace(i, Slice(body, body.outputs()[at])).first->second;
    if (!next.is_known()) return std::nullopt;
    values[at] = ReferenceTensor::from_constant(*starts[at]);
    open.insert(open.end(), next.inputs().begin(), next.inputs().end());
  }
  for (int64_t rounds = 0; rounds <= most; ++rounds) {
    if (goes_on.evaluate(condition, values).values[0] == 0.0) return rounds;
    poll_interruption();
    std::vector<ReferenceTensor> next = values;
    for (const auto& [i, slice] : counters) next[static_cast<size_t>(i)] = slice.evaluate(body, values);
    values = std::move(next);
  }
  return std::nullopt;
}

}  // namespace ipu::ops
