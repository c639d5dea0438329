// Gradient clipping by the global norm: the two steps between which a step builder adds up the squares of all
// trained parameters. Squares are of the gradients as they come, so loss scaling and divisor are taken out of
// the norm, not out of every element.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {

using ir::Value;

Value* squared_norm(ir::Builder& builder, Value* tensor) {
  return ops::build(builder, "square_sum", {tensor});
}

Value* gradient_factor(ir::Builder& builder, const Spec& spec, Value* squared,
                       const std::map<std::string, Value*>& streamed, double gradient_divisor) {
  const Hypers hyper(builder, spec, 0, streamed);
  const Scalar divisor = hyper.loss_scaling() * spec.divisor_left(gradient_divisor);
  Value* norm = divide(builder, ops::build(builder, "sqrt", {squared}), divisor);
  Value* ratio = ops::build(builder, "div", {builder.scalar(DType::kF32, spec.max_grad_norm), norm});
  Value* factor = ops::build(builder, "minimum", {ratio, builder.scalar(DType::kF32, 1.0)});
  return divide(builder, factor, divisor);
}

}  // namespace ipu::optimizers
