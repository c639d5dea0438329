#include "report/known_scalars.h"

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/reference_tensor.h"

namespace ipu::report {
namespace {

// What has one element and a definition by its expression.
std::optional<double> computed(const ir::Op& op, const KnownScalars& known) {
  const ops::OpDef* definition = ops::definition(op);
  if (definition == nullptr || !definition->expression || op.result_count() != 1) return std::nullopt;
  std::vector<ops::Expr> inputs;
  std::vector<double> values;
  for (int i = 0; i < op.operand_count(); ++i) {
    const std::optional<double> value = known.find(op.operand(i));
    if (!value) return std::nullopt;
    inputs.push_back(ops::Expr::input(i, op.operand(i)->type().dtype));
    values.push_back(*value);
  }
  const DType dtype = op.result()->type().dtype;
  return ops::round_to(
      dtype,
      ops::evaluate(definition->expression(inputs, ops::with_defaults(*definition, op.attributes), dtype)[0],
                    values));
}

}  // namespace

KnownScalars::KnownScalars(const ir::Graph& graph, std::optional<int64_t> index) : graph_(graph) {
  if (index) values_[graph.inputs()[0]] = static_cast<double>(*index);
  for (const auto& op : graph.ops()) {
    if (op->result_count() != 1 || op->result()->type().elements() != 1) continue;
    if (op->is(ir::kind::kConstant)) {
      const ConstantPtr& constant = op->attributes.constant("value");
      values_[op->result()] = ops::ReferenceTensor::from_constant(*constant).values[0];
    } else if (const std::optional<double> value = computed(*op, *this)) {
      values_[op->result()] = *value;
    }
  }
}

std::optional<double> KnownScalars::find(const ir::Value* value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::optional<bool>> KnownScalars::conditions() const {
  std::vector<std::optional<bool>> conditions;
  for (const auto& op : graph_.ops()) {
    if (!op->is(ir::kind::kIf)) continue;
    const std::optional<double> value = find(op->operand(0));
    conditions.push_back(value ? std::optional(*value != 0) : std::nullopt);
  }
  return conditions;
}

}  // namespace ipu::report
