// See splat.h.
#include "passes/splat.h"

#include "ir/structure.h"
#include "ops/reference_tensor.h"

namespace ipu::passes {

std::optional<double> splat_of(const ir::Value* value) {
  const ir::Op* op = value->producer();
  while (op != nullptr && (op->is("expand") || op->is("reshape"))) op = op->operand(0)->producer();
  if (op == nullptr || !op->is(ir::kind::kConstant)) return std::nullopt;
  const ConstantPtr& data = op->attributes.constant("value");
  if (element_count(data->shape) != 1) return std::nullopt;
  return ops::ReferenceTensor::from_constant(*data).values[0];
}

}  // namespace ipu::passes
