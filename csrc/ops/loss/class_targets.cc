// See class_targets.h.
#include "ops/loss/class_targets.h"

#include <fmt/core.h>

#include <numeric>

namespace ipu::ops {
namespace {

void check(const InferContext& c, int x, int target) {
  const Shape &scores = c.operand(x).shape, &classes = c.operand(target).shape;
  Shape expected = scores;
  if (expected.size() >= 2) expected.erase(expected.begin() + 1);
  if (scores.size() < 2 || classes != expected) {
    shape_error(fmt::format("scores {} must be [N,C,...] and the target {} the same without C",
                            to_string(scores), to_string(classes)));
  }
}

}  // namespace

ir::Type class_loss_type(const InferContext& c) {
  check(c, 0, 1);
  return {c.operand(0).dtype, loss_shape(c, c.operand(1).shape)};
}

ir::Type class_gradient_type(const InferContext& c) {
  check(c, 1, 2);
  require_same_dtype(c, 0, 1);
  const Shape loss = loss_shape(c, c.operand(2).shape);
  if (c.operand(0).shape != loss) {
    shape_error(fmt::format("dy {} must have the shape of the loss, {}", to_string(c.operand(0).shape),
                            to_string(loss)));
  }
  return {c.operand(1).dtype, c.operand(1).shape};
}

ClassGradientParts class_gradient_parts(Composer& c) {
  ir::Value *dy = c.operand(0), *target = c.operand(2);
  const Shape& scores = c.operand(1)->type().shape;
  Shape one_class = scores, classes(scores.size(), 1);
  one_class[1] = 1;
  classes[1] = scores[1];
  const DType integer = target->type().dtype, dtype = dy->type().dtype;
  const auto ignored = static_cast<double>(c.attributes().integer("ignore_index"));
  target = c.reshape(target, one_class);
  ir::Value* number = c.cast(c.op("iota", {}, {{"shape", classes}, {"dim", int64_t{1}}}), integer);
  ir::Value* counts = c.op("not_equal", {target, c.scalar(integer, ignored)});
  const std::string& reduction = c.attributes().text("reduction");
  if (reduction == "mean") {
    std::vector<int64_t> dims(one_class.size());
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
    dy = c.op("div", {dy, c.reduce("reduce_sum", c.cast(counts, dtype), dims, false)});
  }
  if (reduction == "none") dy = c.reshape(dy, one_class);
  return {c.op("equal", {target, number}), counts, dy};
}

std::pair<ir::Value*, ir::Value*> class_operands(AtenImportCall& call) {
  ir::Value *x = call.tensor("self"), *target = call.tensor("target");
  if (is_floating_point(target->type().dtype)) {
    call.unsupported("class probabilities as target are not supported; give class indices");
  }
  target = call.cast(target, DType::kI32);
  if (x->type().shape.size() == 1) {  // no batch
    x = reshaped(call, x, {1, x->type().shape[0]});
    target = reshaped(call, target, {1});
  }
  return {x, target};
}

ClassTargets::ClassTargets(const ReferenceCall& call, int x, int target)
    : target_(call.operand(target).values),
      split_(split_at(call.operand(x).type.shape, 1)),
      ignore_index_(call.attributes.integer("ignore_index")) {
  for (int64_t i = 0; i < size(); ++i) {
    if (ignored(i)) continue;
    ++counted_;
    if (this->target(i) < 0 || this->target(i) >= classes()) {
      throw Error(ErrorCode::kExecution,
                  fmt::format("index out of range: target {} at position {}, there are {} classes",
                              this->target(i), i, classes()));
    }
  }
}

double ClassTargets::upstream(const ReferenceCall& call, int64_t i) const {
  const std::string& reduction = call.attributes.text("reduction");
  const std::vector<double>& dy = call.operand(0).values;
  if (reduction == "none") return dy[i];
  return reduction == "mean" ? dy[0] / static_cast<double>(counted_) : dy[0];
}

ir::Value* class_loss(ImportCall& call, std::string_view kind, ir::Value* x, ir::Value* target,
                      ir::Value* weight, Attributes attributes) {
  if (weight == nullptr) return call.op(kind, {x, target}, std::move(attributes));
  const std::string reduction = attributes.text("reduction", "mean");
  const double smoothing = attributes.real("label_smoothing", 0.0);
  attributes.set("reduction", std::string("none"));
  if (smoothing != 0.0) attributes.set("label_smoothing", 0.0);
  // Sums of halves overflow: they are computed in f32 and rounded once.
  const DType result = x->type().dtype, dtype = result == DType::kF16 ? DType::kF32 : result;
  const int64_t classes = x->type().shape[1];
  if (weight->type().shape != Shape{classes})
    shape_error(fmt::format("weight {} must have one element for each of the {} classes",
                            to_string(weight->type().shape), classes));
  const auto number = [&](double v) { return call.builder().scalar(dtype, v); };
  const DType integer = target->type().dtype;
  const auto ignored = static_cast<double>(attributes.integer("ignore_index", -100));
  ir::Value* counts = call.op("not_equal", {target, call.builder().scalar(integer, ignored)});
  ir::Value* known = call.op("where", {counts, target, call.builder().scalar(integer, 0.0)});
  weight = call.cast(weight, dtype);
  ir::Value* own = call.op("index_select", {weight, reshaped(call, known, {known->type().elements()})},
                           {{"dim", int64_t{0}}});
  own = call.op("where", {counts, reshaped(call, own, target->type().shape), number(0.0)});
  ir::Value* losses = call.cast(call.op(kind, {x, target}, std::move(attributes)), dtype);
  losses = call.op("mul", {losses, own});
  if (smoothing != 0.0) {
    Shape along(x->type().shape.size(), 1);
    along[1] = classes;
    ir::Value* log_probs = call.op("log_softmax", {call.cast(x, dtype)}, {{"dim", int64_t{1}}});
    ir::Value* all = call.op("reduce_sum", {call.op("mul", {log_probs, reshaped(call, weight, along)})},
                             {{"dims", Shape{1}}, {"keep_dims", false}});
    all = call.op("where", {counts, all, number(0.0)});
    losses = call.op("sub", {call.op("mul", {losses, number(1.0 - smoothing)}),
                             call.op("mul", {all, number(smoothing / static_cast<double>(classes))})});
  }
  if (reduction == "mean") {
    Shape dims(target->type().shape.size());
    std::iota(dims.begin(), dims.end(), 0);
    const auto total = [&](ir::Value* v) {
      return call.op("reduce_sum", {v}, {{"dims", dims}, {"keep_dims", false}});
    };
    losses = call.op("div", {total(losses), total(own)});
  }
  losses = call.cast(losses, result);
  return call.op("identity_loss", {losses}, {{"reduction", reduction == "mean" ? "none" : reduction}});
}

Attributes onnx_class_loss(NodeImportCall& call) {
  Attributes attributes{{"reduction", call.text("reduction", "mean")}};
  if (call.has("ignore_index")) attributes.set("ignore_index", call.integer("ignore_index"));
  return attributes;
}

}  // namespace ipu::ops
