// Gradient clipping by the global norm: the two steps between which a step builder adds up the squares of all
// trained parameters. Squares are of the gradients as they come, so loss scaling and divisor are taken out of
// the norm, not out of every element.
#include <algorithm>

#include "ops/definition/build.h"
#include "optimizers/rule.h"
#include "support/error.h"

namespace ipu::optimizers {

using ir::Value;

Value* squared_norm(ir::Builder& builder, Value* tensor) {
  return ops::build(builder, "square_sum", {tensor});
}

Value* gradient_factor(ir::Builder& builder, const Spec& spec, Value* squared,
                       const std::map<std::string, Value*>& streamed, double gradient_divisor) {
  const Hypers hyper(builder, spec, 0, streamed);
  const Scalar divisor = hyper.loss_scaling() * divisor_left(spec, 0, gradient_divisor);
  Value* norm = divide(builder, ops::build(builder, "sqrt", {squared}), divisor);
  Value* ratio = ops::build(builder, "div", {builder.scalar(DType::kF32, spec.max_grad_norm), norm});
  Value* factor = ops::build(builder, "minimum", {ratio, builder.scalar(DType::kF32, 1.0)});
  return divide(builder, factor, divisor);
}

Value* clip_factor(ir::Builder& builder, double max_norm, Value* norm) {
  constexpr double kSmallestNorm = 1e-30;  // for a bound of 0, which then gives 0
  Value* bounded =
      ops::build(builder, "maximum", {norm, builder.scalar(DType::kF32, std::max(max_norm, kSmallestNorm))});
  return ops::build(builder, "div", {builder.scalar(DType::kF32, max_norm), bounded});
}

Value* measured_value(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                      double gradient_divisor) {
  const auto measure = rule_of(spec.kind).measure;
  IPU_CHECK(measure != nullptr, "this kind of optimizer does not clip");
  return measure({builder, spec, group, input, gradient_divisor});
}

}  // namespace ipu::optimizers
