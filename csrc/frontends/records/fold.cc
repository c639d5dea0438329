#include "frontends/records/fold.h"

#include "ops/definition/op_def.h"
#include "ops/interpreter/interpreter.h"

namespace ipu::frontends::records {
namespace {

constexpr int64_t kMostElements = 1024;

using Values = std::unordered_map<const ir::Value*, ops::ReferenceTensor>;

const ops::ReferenceTensor* find_value(Values& values, const ir::Value* value) {
  const auto at = values.find(value);
  if (at != values.end()) return &at->second;
  const ir::Op* producer = value->producer();
  if (producer == nullptr || !producer->is("constant")) return nullptr;
  return &values.emplace(value, ops::ReferenceTensor::from_constant(*producer->attributes.constant("value")))
              .first->second;
}

bool is_small(const ir::Op& op) {
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) != nullptr && op.operand(i)->type().elements() > kMostElements) return false;
  for (int i = 0; i < op.result_count(); ++i)
    if (op.result(i)->type().elements() > kMostElements) return false;
  return true;
}

// False: the op's values stay unknown.
bool evaluate(const ir::Op& op, Values& values) {
  const ops::OpDef* def = ops::definition(op);
  if (op.is("constant")) return true;
  if (def == nullptr || !def->reference || def->has(ops::kRandom) || def->has(ops::kSideEffects) ||
      !is_small(op))
    return false;
  std::vector<const ops::ReferenceTensor*> operands;
  for (int i = 0; i < op.operand_count(); ++i) {
    operands.push_back(op.operand(i) == nullptr ? nullptr : find_value(values, op.operand(i)));
    if (op.operand(i) != nullptr && operands.back() == nullptr) return false;
  }
  std::vector<ops::ReferenceTensor> results = ops::interpret_op(op, operands, ops::Arithmetic::kNative);
  for (int i = 0; i < op.result_count(); ++i)
    values.emplace(op.result(i), std::move(results[static_cast<size_t>(i)]));
  return true;
}

}  // namespace

void fold_results(const ir::Graph& graph, const ir::Op* last, const GivenValues& given,
                  std::vector<Known>& results) {
  auto first = graph.ops().end();
  while (first != graph.ops().begin() && (*std::prev(first)).get() != last) --first;
  Values values;
  for (const auto& [value, constant] : given)
    values.emplace(value, ops::ReferenceTensor::from_constant(*constant));
  for (; first != graph.ops().end(); ++first)
    if (!evaluate(**first, values)) return;
  for (Known& result : results) {
    if (result.value == nullptr || result.value->type().elements() > kMostElements) continue;
    if (const ops::ReferenceTensor* tensor = find_value(values, result.value))
      result.constant = tensor->to_constant();
  }
}

void erase_unused(ir::Graph& graph, const ir::Value* kept) {
  std::vector<ir::Op*> ops;
  for (const auto& op : graph.ops()) ops.push_back(op.get());
  for (auto at = ops.rbegin(); at != ops.rend(); ++at) {
    bool is_unused = (*at)->result_count() > 0 && !ops::has_trait(**at, ops::kSideEffects);
    for (int i = 0; i < (*at)->result_count(); ++i)
      is_unused = is_unused && (*at)->result(i)->is_unused() && (*at)->result(i) != kept;
    if (is_unused) graph.erase(*at);
  }
}

}  // namespace ipu::frontends::records
