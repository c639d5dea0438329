// See loss_support.h.
#include "ops/loss/loss_support.h"

#include <fmt/core.h>

#include <numeric>

namespace ipu::ops {

std::string reduction_word(AtenImportCall& call) {
  switch (call.has("reduction") ? call.integer("reduction") : 1) {
    case 0:
      return "none";
    case 1:
      return "mean";
    case 2:
      return "sum";
    default:
      call.unsupported(fmt::format("reduction {}", call.integer("reduction")));
  }
}

void set_reduced_loss(AtenImportCall& call, ir::Value* elements) {
  ir::Value* loss = call.op("identity_loss", {elements}, {{"reduction", reduction_word(call)}});
  call.set_result(0, call.cast(loss, call.result_type(0).dtype));
}

LossOperands loss_operands(AtenImportCall& call, std::string_view a, std::string_view b) {
  // Squares and sums of halves overflow: the loss is computed in f32 and rounded once.
  const DType dtype = call.result_type(0).dtype == DType::kF16 ? DType::kF32 : call.result_type(0).dtype;
  ir::Value *left = call.cast(call.tensor(a), dtype), *right = call.cast(call.tensor(b), dtype);
  const Shape shape = broadcast_shapes(left->type().shape, right->type().shape);
  return {expanded(call, left, shape), expanded(call, right, shape)};
}

Shape loss_shape(const InferContext& context, const Shape& elements) {
  return one_of(context, "reduction", {"mean", "sum", "none"}) == "none" ? elements : Shape{};
}

void reduce_losses(ReferenceCall& call, const std::vector<double>& elements, double divisor) {
  const std::string& reduction = call.attributes.text("reduction");
  if (reduction == "none") {
    call.result().values = elements;
    return;
  }
  const double sum = std::accumulate(elements.begin(), elements.end(), 0.0);
  call.result().values[0] = reduction == "mean" ? sum / divisor : sum;
}

ir::Value* spread_upstream(GradientBuilder& g, const Shape& elements) {
  const std::string& reduction = g.attributes().text("reduction");
  ir::Value* dy = g.upstream();
  if (reduction == "none") return dy;
  if (reduction == "mean") dy = g.scale(dy, 1.0 / static_cast<double>(element_count(elements)));
  return g.expand(dy, elements);
}

}  // namespace ipu::ops
