// A hyper-parameter while an update rule is being built: a number known now, or a 0-d value of the program.
// Arithmetic on numbers happens here; only what depends on a streamed value becomes ops.
#pragma once

#include "ir/builder.h"

namespace ipu::optimizers {

class Scalar {
 public:
  Scalar(double number) : number_(number) {}  // NOLINT: numbers are scalars
  Scalar(ir::Builder* builder, ir::Value* value) : builder_(builder), value_(value) {}

  bool is(double number) const { return value_ == nullptr && number_ == number; }
  bool is_number() const { return value_ == nullptr; }
  double number() const { return number_; }
  ir::Value* materialize(ir::Builder& builder) const;  // 0-d f32

  friend Scalar operator+(const Scalar& a, const Scalar& b);
  friend Scalar operator-(const Scalar& a, const Scalar& b);
  friend Scalar operator*(const Scalar& a, const Scalar& b);
  friend Scalar operator/(const Scalar& a, const Scalar& b);

 private:
  static Scalar combine(const char* kind, const Scalar& a, const Scalar& b, double number);
  double number_ = 0.0;
  ir::Builder* builder_ = nullptr;
  ir::Value* value_ = nullptr;  // nullptr: the number
};

// A function of one scalar: `compute` on a number, op `kind` on a value.
Scalar apply(ir::Builder& builder, const char* kind, double (*compute)(double), const Scalar& operand);

// f32 tensors times and over scalars; a factor of one leaves the tensor as it is.
ir::Value* multiply(ir::Builder& builder, ir::Value* tensor, const Scalar& factor);
ir::Value* divide(ir::Builder& builder, ir::Value* tensor, const Scalar& divisor);
ir::Value* cast(ir::Builder& builder, ir::Value* tensor, DType dtype);

}  // namespace ipu::optimizers
