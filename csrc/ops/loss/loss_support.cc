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

OpDefBuilder composed_loss(std::string name, std::function<ir::Value*(Composer&)> elements,
                           std::function<Shape(const InferContext&)> shape) {
  OpDefBuilder builder = define_op(std::move(name), "loss");
  builder.result("loss")
      .traits(kLoss)
      .infer([shape = std::move(shape)](const InferContext& c) {
        for (int i = 1; i < static_cast<int>(c.operands.size()); ++i)
          if (c.has(i)) require_same_dtype(c, 0, i);
        return std::vector<ir::Type>{{c.operand(0).dtype, loss_shape(c, shape(c))}};
      })
      .compound([elements = std::move(elements)](Composer& c) {
        return std::vector<ir::Value*>{
            c.op("identity_loss", {elements(c)}, {{"reduction", c.attributes().text("reduction")}})};
      })
      .gradient_by_decomposition()
      .attribute("reduction", std::string("mean"));
  return builder;
}

Shape broadcast_of_operands(const InferContext& context) {
  Shape shape = context.operand(0).shape;
  for (int i = 1; i < static_cast<int>(context.operands.size()); ++i)
    if (context.has(i)) shape = broadcast_shapes(shape, context.operand(i).shape);
  return shape;
}

std::vector<Sample> loss_samples(std::vector<std::optional<ir::Type>> operands, Attributes attributes,
                                 double low, double high) {
  std::vector<Sample> samples;
  for (const char* reduction : {"mean", "sum", "none"}) {
    attributes.set("reduction", std::string(reduction));
    samples.push_back({operands, attributes, low, high, {}});
  }
  return samples;
}

void import_loss(AtenImportCall& call, std::string_view kind, const std::vector<ir::Value*>& operands,
                 Attributes attributes) {
  attributes.set("reduction", reduction_word(call));
  ir::Value* loss = build_op(call.builder(), kind, operands, std::move(attributes))->result();
  call.set_result(0, call.cast(loss, call.result_type(0).dtype));
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
