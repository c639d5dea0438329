#include "ops/definition/gradient_builder.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::ops {

GradientBuilder::GradientBuilder(const ir::Op& forward, std::vector<ir::Value*> upstream,
                                 ir::Builder& builder, Fetch fetch)
    : forward_(forward),
      upstream_(std::move(upstream)),
      gradients_(forward.operand_count(), nullptr),
      needs_(forward.operand_count(), true),
      builder_(builder),
      fetch_(std::move(fetch)) {
  const OpDef* def = definition(forward);
  attributes_ = def == nullptr ? forward.attributes : with_defaults(*def, forward.attributes);
  for (int i = 0; i < forward.operand_count(); ++i)
    needs_[i] = forward.operand(i) != nullptr && is_floating_point(forward.operand(i)->type().dtype);
}

bool GradientBuilder::has_operand(int i) const {
  return i < forward_.operand_count() && forward_.operand(i) != nullptr;
}
ir::Value* GradientBuilder::operand(int i) { return fetch_(forward_.operand(i)); }
ir::Value* GradientBuilder::result(int i) { return fetch_(forward_.result(i)); }
const ir::Type& GradientBuilder::operand_type(int i) const { return forward_.operand(i)->type(); }
const ir::Type& GradientBuilder::result_type(int i) const { return forward_.result(i)->type(); }
bool GradientBuilder::needs(int operand) const {
  return operand < static_cast<int>(needs_.size()) && needs_[operand];
}
ir::Value* GradientBuilder::upstream(int result) const { return upstream_[result]; }

void GradientBuilder::set(int operand, ir::Value* gradient) {
  const ir::Type& type = operand_type(operand);
  IPU_CHECK(gradient->type().shape == type.shape && gradient->type().dtype == type.dtype,
            fmt::format("the gradient of operand {} of '{}' is {}, the operand {}", operand, forward_.kind(),
                        ir::to_string(gradient->type()), ir::to_string(type)));
  gradients_[operand] = gradient;
}

void GradientBuilder::set_reduced(int operand, ir::Value* gradient) {
  const Shape& to = operand_type(operand).shape;
  const Shape& from = gradient->type().shape;
  if (from != to) {
    const size_t lead = from.size() - to.size();
    std::vector<int64_t> dims;
    for (size_t i = 0; i < from.size(); ++i)
      if (i < lead || (to[i - lead] == 1 && from[i] != 1)) dims.push_back(static_cast<int64_t>(i));
    if (!dims.empty()) gradient = sum(gradient, std::move(dims), false);
    gradient = reshape(gradient, to);
  }
  set(operand, gradient);
}

ir::Value* GradientBuilder::op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                               Attributes attributes) {
  return build(builder_, kind, operands, std::move(attributes));
}
ir::Value* GradientBuilder::add(ir::Value* a, ir::Value* b) { return op("add", {a, b}); }
ir::Value* GradientBuilder::sub(ir::Value* a, ir::Value* b) { return op("sub", {a, b}); }
ir::Value* GradientBuilder::mul(ir::Value* a, ir::Value* b) { return op("mul", {a, b}); }
ir::Value* GradientBuilder::div(ir::Value* a, ir::Value* b) { return op("div", {a, b}); }
ir::Value* GradientBuilder::neg(ir::Value* a) { return op("neg", {a}); }
ir::Value* GradientBuilder::scale(ir::Value* a, double factor) {
  return factor == 1.0 ? a : mul(a, scalar_like(a, factor));
}
ir::Value* GradientBuilder::add_scalar(ir::Value* a, double addend) {
  return addend == 0.0 ? a : add(a, scalar_like(a, addend));
}
ir::Value* GradientBuilder::where(ir::Value* condition, ir::Value* a, ir::Value* b) {
  return op("where", {condition, a, b});
}
ir::Value* GradientBuilder::scalar_like(ir::Value* like, double value) {
  return builder_.scalar(like->type().dtype, value);
}
ir::Value* GradientBuilder::zeros(const ir::Type& type) {
  return builder_.splat({type.dtype, type.shape}, 0.0);
}
ir::Value* GradientBuilder::reshape(ir::Value* a, Shape shape) {
  return a->type().shape == shape ? a : op("reshape", {a}, {{"shape", std::move(shape)}});
}
ir::Value* GradientBuilder::expand(ir::Value* a, Shape shape) {
  return a->type().shape == shape ? a : op("expand", {a}, {{"shape", std::move(shape)}});
}
ir::Value* GradientBuilder::sum(ir::Value* a, std::vector<int64_t> dims, bool keep_dims) {
  return dims.empty() ? a : op("reduce_sum", {a}, {{"dims", std::move(dims)}, {"keep_dims", keep_dims}});
}
ir::Value* GradientBuilder::cast(ir::Value* a, DType dtype) {
  return a->type().dtype == dtype ? a : op("cast", {a}, {{"dtype", dtype}});
}

}  // namespace ipu::ops
