#include "frontends/popxl/kinds/float8.h"

namespace ipu::popxl {

namespace {

constexpr int kScale = 2;  // input
constexpr double kLowestScale = -32, kHighestScale = 31;

ir::Value* decoded(LowerCall& c, int i, ir::Value* scale) {
  const DType dtype = c.type(i).dtype;
  if (dtype != DType::kF8_143 && dtype != DType::kF8_152)
    c.refuse("input " + std::to_string(i) + " must be float8, as there is a scale");
  return c.build("from_float8", {c.input(i), scale}, {{"dtype", DType::kF32}});
}

}  // namespace

ir::Value* scale_of(LowerCall& c, int i) {
  if (c.op().graph().program().checks_scales || c.type(i).dtype != DType::kI32) return c.input(i);
  ir::Value* low = c.build("maximum", {c.input(i), c.scalar(DType::kI32, kLowestScale)});
  return c.build("minimum", {low, c.scalar(DType::kI32, kHighestScale)});
}

Factors factors_of(LowerCall& c) {
  if (c.has(kScale)) return {decoded(c, 0, scale_of(c, kScale)), decoded(c, 1, nullptr)};
  if (c.type(0).dtype != c.type(1).dtype) c.refuse("both operands must have one data type");
  return {c.input(0), c.input(1)};
}

ir::Value* product_of_factors(LowerCall& c, ir::Value* product) {
  return c.has(kScale) ? c.cast(product, DType::kF16) : product;
}

std::string is_of_float8(const Op& op) {
  return op.input(kScale) == nullptr ? "" : "float8 operands with a scale have no gradient";
}

}  // namespace ipu::popxl
