// cross_entropy and its gradient: log-softmax over the classes and nll_loss in one, so that the gradient is
// computed from the scores directly. Label smoothing as in torch.
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/definition/sample_types.h"
#include "ops/loss/class_targets.h"
#include "ops/softmax/softmax_work.h"

namespace ipu::ops {
namespace {

// Largest score of a row and the logarithm of the sum of exponentials relative to it.
struct Normalizer {
  double largest, log_sum;
};
Normalizer normalizer(const std::vector<double>& x, const ClassTargets& targets, int64_t i) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (int64_t c = 0; c < targets.classes(); ++c) largest = std::max(largest, x[targets.element(i, c)]);
  for (int64_t c = 0; c < targets.classes(); ++c) sum += std::exp(x[targets.element(i, c)] - largest);
  return {largest, std::log(sum)};
}

void cross_entropy_reference(ReferenceCall& call) {
  const std::vector<double>& x = call.operand(0).values;
  const ClassTargets targets(call, 0, 1);
  const double smoothing = call.attributes.real("label_smoothing");
  std::vector<double> losses(targets.size(), 0.0);
  for (int64_t i = 0; i < targets.size(); ++i) {
    if (targets.ignored(i)) continue;
    const Normalizer z = normalizer(x, targets, i);
    double sum = 0.0;
    for (int64_t c = 0; c < targets.classes(); ++c) sum += x[targets.element(i, c)] - z.largest - z.log_sum;
    const double own = x[targets.element(i, targets.target(i))] - z.largest - z.log_sum;
    losses[i] = -(1.0 - smoothing) * own;
    if (smoothing != 0.0) losses[i] -= smoothing / static_cast<double>(targets.classes()) * sum;
  }
  reduce_losses(call, losses, static_cast<double>(targets.counted()));
}

void cross_entropy_gradient_reference(ReferenceCall& call) {
  const std::vector<double>& x = call.operand(1).values;
  const ClassTargets targets(call, 1, 2);
  const double smoothing = call.attributes.real("label_smoothing");
  for (int64_t i = 0; i < targets.size(); ++i) {
    if (targets.ignored(i)) continue;
    const Normalizer z = normalizer(x, targets, i);
    const double upstream = targets.upstream(call, i);
    for (int64_t c = 0; c < targets.classes(); ++c) {
      const double p = std::exp(x[targets.element(i, c)] - z.largest - z.log_sum);
      const double wanted = (c == targets.target(i) ? 1.0 - smoothing : 0.0) +
                            smoothing / static_cast<double>(targets.classes());
      call.result().values[targets.element(i, c)] = upstream * (p - wanted);
    }
  }
}

// log_softmax and nll_loss; smoothing adds the mean over the classes, for targets that are not ignored.
std::vector<ir::Value*> cross_entropy_decomposition(ir::Op& op) {
  ir::Builder builder(op.graph(), &op);
  builder.settings = op.settings;
  builder.location = op.location;
  builder.origin = op.origin;
  const Attributes attributes = with_defaults(get_op("cross_entropy"), op.attributes);
  const double smoothing = attributes.real("label_smoothing");
  const std::string& reduction = attributes.text("reduction");
  ir::Value* target = op.operand(1);
  ir::Value* log_probs = build(builder, "log_softmax", {op.operand(0)}, {{"dim", int64_t{1}}});
  const DType dtype = log_probs->type().dtype;
  const Attribute ignore = *attributes.find("ignore_index");
  if (smoothing == 0.0) {
    return {build(builder, "nll_loss", {log_probs, target},
                  {{"ignore_index", ignore}, {"reduction", reduction}})};
  }
  ir::Value* nll = build(builder, "nll_loss", {log_probs, target},
                         {{"ignore_index", ignore}, {"reduction", std::string("none")}});
  ir::Value* counts =
      build(builder, "not_equal",
            {target, builder.scalar(target->type().dtype, static_cast<double>(std::get<int64_t>(ignore)))});
  ir::Value* sum = build(builder, "reduce_sum", {log_probs}, {{"dims", Shape{1}}, {"keep_dims", false}});
  const double share = -smoothing / static_cast<double>(op.operand(0)->type().shape[1]);
  ir::Value* smooth =
      build(builder, "where",
            {counts, build(builder, "mul", {sum, builder.scalar(dtype, share)}), builder.scalar(dtype, 0.0)});
  ir::Value* losses =
      build(builder, "add", {build(builder, "mul", {nll, builder.scalar(dtype, 1.0 - smoothing)}), smooth});
  if (reduction != "mean") return {build(builder, "identity_loss", {losses}, {{"reduction", reduction}})};
  std::vector<int64_t> dims(target->type().shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  const auto total_of = [&](ir::Value* v) {
    return build(builder, "reduce_sum", {v}, {{"dims", dims}, {"keep_dims", false}});
  };
  return {build(builder, "div",
                {total_of(losses), total_of(build(builder, "cast", {counts}, {{"dtype", dtype}}))})};
}

// upstream * (softmax - wanted) where the target counts.
std::vector<ir::Value*> cross_entropy_gradient_parts(ir::Op& op) {
  Composer c(op);
  const ClassGradientParts p = class_gradient_parts(c);
  ir::Value* x = c.operand(1);
  const double smoothing = c.attributes().real("label_smoothing");
  const double share = smoothing / static_cast<double>(x->type().shape[1]);
  ir::Value* wanted =
      c.op("where", {p.is_class, c.scalar_like(x, 1.0 - smoothing + share), c.scalar_like(x, share)});
  ir::Value* off = c.sub(c.op("softmax", {x}, {{"dim", int64_t{1}}}), wanted);
  return {c.op("where", {p.counts, c.mul(p.upstream, off), c.scalar_like(x, 0.0)})};
}

// Minus the sum over the classes of target * log softmax.
ir::Value* soft_losses(Composer& c) {
  ir::Value *x = c.operand(0), *target = c.operand(1);
  const Shape& shape = x->type().shape;
  const int64_t dim = shape.size() == 1 ? 0 : 1;
  const double smoothing = c.attributes().real("label_smoothing");
  if (smoothing > 0.0) {
    const double share = smoothing / static_cast<double>(shape[static_cast<size_t>(dim)]);
    target = c.add(c.mul(target, c.scalar_like(target, 1.0 - smoothing)), c.scalar_like(target, share));
  }
  ir::Value* products = c.mul(c.op("log_softmax", {x}, {{"dim", dim}}), target);
  return c.op("neg", {c.reduce("reduce_sum", products, {dim}, false)});
}

Shape soft_losses_shape(const InferContext& c) {
  require_same_shape(c, 0, 1);
  Shape shape = c.operand(0).shape;
  if (shape.empty()) shape_error("scores have a dimension of classes");
  shape.erase(shape.begin() + (shape.size() == 1 ? 0 : 1));
  return shape;
}

// Targets of the shape of the scores are probabilities.
void import_probabilities(AtenImportCall& call, double smoothing) {
  const DType dtype = call.result_type(0).dtype;
  ir::Value *x = call.cast(call.tensor("self"), dtype), *target = call.cast(call.tensor("target"), dtype);
  if (call.has("weight")) {
    const auto number = [&](double v) { return call.builder().scalar(dtype, v); };
    const size_t rank = x->type().shape.size(), dim = rank == 1 ? 0 : 1;
    const int64_t classes = x->type().shape[dim];
    Shape along(rank, 1);
    along[dim] = classes;
    if (smoothing > 0.0) {
      target = call.op("add", {call.op("mul", {target, number(1.0 - smoothing)}),
                               number(smoothing / static_cast<double>(classes))});
      smoothing = 0.0;
    }
    target = call.op("mul", {target, reshaped(call, call.cast(call.tensor("weight"), dtype), along)});
  }
  import_loss(call, "soft_cross_entropy", {x, target}, {{"label_smoothing", smoothing}});
}

const OpRegistration soft_cross_entropy =
    composed_loss("soft_cross_entropy", soft_losses, soft_losses_shape)
        .doc(
            "Cross-entropy of scores x [N, C, ...] and probabilities target of the same shape; "
            "label_smoothing spreads that share of the target over all classes.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyFloat)
        .attribute("label_smoothing", 0.0)
        .samples(loss_samples({f32({2, 3}), f32({2, 3})}, {{"label_smoothing", 0.2}}))
        .samples(loss_samples({f32({2, 3, 2}), f32({2, 3, 2})}));

void import_cross_entropy(AtenImportCall& call) {
  const double smoothing = call.has("label_smoothing") ? call.real("label_smoothing") : 0.0;
  if (smoothing < 0.0 || smoothing > 1.0) call.unsupported("label_smoothing must be between 0 and 1");
  if (is_floating_point(call.tensor("target")->type().dtype)) return import_probabilities(call, smoothing);
  const auto [x, target] = class_operands(call);
  ir::Value* loss =
      class_loss(call, "cross_entropy", x, target, call.optional_tensor("weight"),
                 {{"ignore_index", call.has("ignore_index") ? call.integer("ignore_index") : -100},
                  {"reduction", reduction_word(call)},
                  {"label_smoothing", smoothing}});
  call.set_result(0, reshaped(call, loss, call.result_type(0).shape));
}

std::vector<target::Work> cross_entropy_work(const ir::Op& op) {
  const ir::Type &x = op.operand(0)->type(), &target = op.operand(1)->type();
  std::vector<target::Work> work = softmax_work(x, target.elements());
  work.push_back(pass_over(x, {"CrossEntropy"}));
  work.push_back(reduction_of({x.dtype, target.shape}, op.result()->type().elements()));
  return work;
}

void import_onnx_cross_entropy(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  call.set_result(0, class_loss(call, "cross_entropy", x, call.operand(1),
                                call.has_operand(2) ? call.operand(2) : nullptr, onnx_class_loss(call)));
  if (call.has_result(1)) call.set_result(1, call.op("log_softmax", {x}, {{"dim", int64_t{1}}}));
}

const OpRegistration cross_entropy =
    define_op("cross_entropy", "loss")
        .doc(
            "Cross-entropy of scores x [N, C, ...] and classes target [N, ...]; targets equal to "
            "ignore_index do not "
            "count; label_smoothing spreads that share of the target over all classes.")
        .operand("x", kAnyFloat)
        .operand("target", kAnyInteger)
        .attribute("ignore_index", int64_t{-100})
        .attribute("reduction", std::string("mean"))
        .attribute("label_smoothing", 0.0)
        .result("loss")
        .traits(kLoss | kCompound)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{class_loss_type(c)}; })
        .gradient([](GradientBuilder& g) {
          g.set(0,
                g.op("cross_entropy_gradient", {g.upstream(), g.operand(0), g.operand(1)}, g.attributes()));
        })
        .reference(cross_entropy_reference)
        .work(cross_entropy_work)
        .decompose(cross_entropy_decomposition)
        .from_aten({"cross_entropy_loss"}, import_cross_entropy)
        .from_onnx("SoftmaxCrossEntropyLoss", {12}, import_onnx_cross_entropy)
        .samples({{{f32({4, 5}), i32({4})}, {}, -2, 2, {{1, {0, 4}}}},
                  {{f32({4, 5}), i32({4})},
                   {{"reduction", std::string("none")}, {"ignore_index", int64_t{2}}},
                   -2,
                   2,
                   {{1, {0, 4}}}},
                  {{f32({6, 3}), i32({6})},
                   {{"label_smoothing", 0.2}, {"ignore_index", int64_t{1}}},
                   -2,
                   2,
                   {{1, {0, 2}}}},
                  {{f32({2, 3, 2, 2}), i32({2, 2, 2})},
                   {{"reduction", std::string("sum")}},
                   -2,
                   2,
                   {{1, {0, 2}}}}});

const OpRegistration cross_entropy_gradient =
    define_op("cross_entropy_gradient", "loss")
        .doc(
            "Gradient of cross_entropy for the scores: softmax minus the smoothed target, times the upstream "
            "gradient.")
        .operand("dy", kAnyFloat)
        .operand("x", kAnyFloat)
        .operand("target", kAnyInteger)
        .attribute("ignore_index", int64_t{-100})
        .attribute("reduction", std::string("mean"))
        .attribute("label_smoothing", 0.0)
        .result("dx")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{class_gradient_type(c)}; })
        .decompose(cross_entropy_gradient_parts)
        .reference(cross_entropy_gradient_reference)
        // Of the probabilities that the loss was made of.
        .work([](const ir::Op& op) {
          return std::vector{pass_over(op.result()->type(), {"Sub", "Mul"}, 2)};
        })
        .samples({{{f32({}), f32({4, 5}), i32({4})}, {}, -2, 2, {{2, {0, 4}}}},
                  {{f32({4}), f32({4, 5}), i32({4})},
                   {{"reduction", std::string("none")}, {"label_smoothing", 0.1}},
                   -2,
                   2,
                   {{2, {0, 4}}}}});

}  // namespace
}  // namespace ipu::ops
