// See scalar.h. Identities with 0 and 1 are taken here so that a hyper-parameter at its default costs
// nothing.
#include "optimizers/scalar.h"

#include <cmath>

#include "ops/definition/build.h"

namespace ipu::optimizers {

ir::Value* Scalar::materialize(ir::Builder& builder) const {
  return value_ != nullptr ? value_ : builder.scalar(DType::kF32, number_);
}

Scalar Scalar::combine(const char* kind, const Scalar& a, const Scalar& b, double number) {
  if (a.is_number() && b.is_number()) return Scalar(number);
  ir::Builder& builder = a.builder_ != nullptr ? *a.builder_ : *b.builder_;
  return Scalar(&builder, ops::build(builder, kind, {a.materialize(builder), b.materialize(builder)}));
}

Scalar operator+(const Scalar& a, const Scalar& b) {
  if (a.is(0.0)) return b;
  if (b.is(0.0)) return a;
  return Scalar::combine("add", a, b, a.number_ + b.number_);
}
Scalar operator-(const Scalar& a, const Scalar& b) {
  if (b.is(0.0)) return a;
  return Scalar::combine("sub", a, b, a.number_ - b.number_);
}
Scalar operator*(const Scalar& a, const Scalar& b) {
  if (a.is(1.0) || b.is(0.0)) return b;
  if (b.is(1.0) || a.is(0.0)) return a;
  return Scalar::combine("mul", a, b, a.number_ * b.number_);
}
Scalar operator/(const Scalar& a, const Scalar& b) {
  if (b.is(1.0)) return a;
  return Scalar::combine("div", a, b, a.number_ / b.number_);
}

Scalar apply(ir::Builder& builder, const char* kind, double (*compute)(double), const Scalar& operand) {
  if (operand.is_number()) return compute(operand.number());
  return Scalar(&builder, ops::build(builder, kind, {operand.materialize(builder)}));
}

ir::Value* multiply(ir::Builder& builder, ir::Value* tensor, const Scalar& factor) {
  if (factor.is(1.0)) return tensor;
  return ops::build(builder, "mul", {tensor, factor.materialize(builder)});
}

ir::Value* divide(ir::Builder& builder, ir::Value* tensor, const Scalar& divisor) {
  if (divisor.is(1.0)) return tensor;
  if (divisor.is_number()) {
    // Powers of two have exact reciprocals; any other divisor is divided by, for the last bit.
    int exponent = 0;
    if (std::frexp(divisor.number(), &exponent) == 0.5)
      return multiply(builder, tensor, 1.0 / divisor.number());
  }
  return ops::build(builder, "div", {tensor, divisor.materialize(builder)});
}

ir::Value* cast(ir::Builder& builder, ir::Value* tensor, DType dtype) {
  if (tensor->type().dtype == dtype) return tensor;
  return ops::build(builder, "cast", {tensor}, {{"dtype", dtype}});
}

}  // namespace ipu::optimizers
