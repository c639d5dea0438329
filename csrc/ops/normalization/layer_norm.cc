// layer_norm and rms_norm: over the last dimensions of x, from `axis` on.
#include <fmt/core.h>

#include <limits>

#include "ops/definition/sample_types.h"
#include "ops/normalization/norm_support.h"
#include "ops/normalization/norm_work.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> normalized_dims(const Attributes& attributes, const Shape& x) {
  return dims_from(static_cast<size_t>(attributes.integer("axis")), x.size());
}

// Checks operands 0 to `weights` and gives the type of the statistics.
ir::Type row_statistic(const InferContext& c, int weights) {
  const ir::Type& x = c.operand(0);
  dimension(c, "axis", x.shape.size());
  for (int i = 1; i <= weights; ++i) {
    if (!c.has(i)) continue;
    const Shape& weight = c.operand(i).shape;
    if (broadcast_shapes(x.shape, weight) != x.shape)
      shape_error(fmt::format("{} {} does not broadcast to x {}", i == 1 ? "weight" : "bias",
                              to_string(weight), to_string(x.shape)));
  }
  return statistic_type(x, normalized_dims(c.attributes, x.shape));
}

std::vector<ir::Value*> layer_norm_parts(Composer& c) {
  ir::Value* x = widened(c, c.operand(0));
  const Statistics s = statistics(c, x, normalized_dims(c.attributes(), x->type().shape));
  ir::Value* rstd = inverse_deviation(c, s.variance, c.attributes().real("eps"));
  ir::Value* y = c.mul(s.centered, rstd);
  if (c.has(1)) y = c.mul(y, weight_of(c, 1, c.operand(1)->type().shape));
  if (c.has(2)) y = c.add(y, weight_of(c, 2, c.operand(2)->type().shape));
  return {c.cast(y, c.operand(0)->type().dtype), s.mean, rstd};
}

std::vector<ir::Value*> rms_norm_parts(Composer& c) {
  ir::Value* x = widened(c, c.operand(0));
  const std::vector<int64_t> dims = normalized_dims(c.attributes(), x->type().shape);
  ir::Value* square = c.reduce("reduce_mean", c.mul(x, x), dims, true);
  ir::Value* rrms = inverse_deviation(c, square, c.attributes().real("eps"));
  ir::Value* y = c.mul(x, rrms);
  if (c.has(1)) y = c.mul(y, weight_of(c, 1, c.operand(1)->type().shape));
  return {c.cast(y, c.operand(0)->type().dtype), rrms};
}

// No mean is taken away.
std::vector<target::Work> rms_norm_work(const ir::Op& op) {
  const ir::Type& x = op.operand(0)->type();
  target::Work pass = pass_over(x, {"Mul"}, 2);
  pass.times = 2;
  return {reduction_of(x, op.result(1)->type().elements()), pass};
}

int64_t axis_of_call(AtenImportCall& call) {
  const size_t rank = call.tensor("input")->type().shape.size();
  const Shape normalized = call.integers("normalized_shape");
  if (normalized.empty() || normalized.size() > rank)
    call.unsupported(
        fmt::format("normalized_shape {} of a tensor of {} dimensions", to_string(normalized), rank));
  return static_cast<int64_t>(rank - normalized.size());
}

void import_layer_norm(AtenImportCall& call) {
  const std::vector<ir::Value*> operands{call.tensor("input"), optional(call, "weight"),
                                         optional(call, "bias")};
  const ir::Op* norm = build_op(call.builder(), "layer_norm", operands,
                                {{"axis", axis_of_call(call)}, {"eps", call.real("eps")}});
  call.set_result(0, norm->result(0));
  for (int i = 1; i < call.result_count(); ++i)
    call.set_result(i, call.cast(norm->result(i), call.result_type(i).dtype));
}

void import_rms_norm(AtenImportCall& call) {
  const double eps = call.has("eps") ? call.real("eps") : std::numeric_limits<float>::epsilon();
  call.set_result(0, call.op("rms_norm", {call.tensor("input"), optional(call, "weight")},
                             {{"axis", axis_of_call(call)}, {"eps", eps}}));
}

void import_onnx_layer_norm(NodeImportCall& call) {
  if (call.integer("stash_type", 1) != 1) call.unsupported("stash_type other than 1 (float)");
  ir::Value* x = call.operand(0);
  const int64_t axis = axis_of(call, "axis", -1, x->type().shape.size());
  const std::vector<ir::Value*> operands{x, call.operand(1), call.has_operand(2) ? call.operand(2) : nullptr};
  const ir::Op* norm =
      build_op(call.builder(), "layer_norm", operands, {{"axis", axis}, {"eps", call.real("epsilon", 1e-5)}});
  for (int i = 0; i < 3; ++i) call.set_result(i, norm->result(i));
}

const OpRegistration layer_norm =
    define_op("layer_norm", "normalization")
        .doc(
            "(x - mean) * rstd * weight + bias, with the mean and 1 / sqrt(variance + eps) of each slice of x "
            "over its dimensions from axis on.")
        .operand("x", kAnyFloat)
        .optional_operand("weight", kAnyFloat)
        .optional_operand("bias", kAnyFloat)
        .attribute("axis")
        .attribute("eps", 1e-5)
        .result("y")
        .result("mean")
        .result("rstd")
        .batch(batch_before("axis"))
        .infer([](const InferContext& c) {
          const ir::Type statistic = row_statistic(c, 2);
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}, statistic, statistic};
        })
        .compound(layer_norm_parts)
        .kernel("layer_norm")
        .work(norm_work)
        .gradient_by_decomposition({"mean", "rstd"})
        .gradient_work(norm_gradient_work(3))
        .gradient_kernel("layer_norm_gradient")
        .from_aten({"layer_norm", "native_layer_norm"}, import_layer_norm)
        .from_onnx("LayerNormalization", {17}, import_onnx_layer_norm)
        .samples({{{f32({2, 5}), f32({5}), f32({5})}, {{"axis", int64_t{1}}}},
                  {{f32({2, 3, 4}), f32({3, 4}), std::nullopt}, {{"axis", int64_t{1}}, {"eps", 0.1}}},
                  {{f32({4, 3}), std::nullopt, std::nullopt}, {{"axis", int64_t{0}}}},
                  {{f16({3, 8}), f16({8}), f16({8})}, {{"axis", int64_t{1}}}}});

const OpRegistration rms_norm =
    define_op("rms_norm", "normalization")
        .doc(
            "x * rrms * weight, with 1 / sqrt(mean of squares + eps) of each slice of x over its dimensions "
            "from axis on.")
        .operand("x", kAnyFloat)
        .optional_operand("weight", kAnyFloat)
        .attribute("axis")
        .attribute("eps", 1e-5)
        .result("y")
        .result("rrms")
        .batch(batch_before("axis"))
        .infer([](const InferContext& c) {
          const ir::Type statistic = row_statistic(c, 1);
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}, statistic};
        })
        .compound(rms_norm_parts)
        .work(rms_norm_work)
        .gradient_by_decomposition({"rrms"})
        .gradient_work(norm_gradient_work(2))
        .from_aten({"rms_norm"}, import_rms_norm)
        .samples({{{f32({2, 5}), f32({5})}, {{"axis", int64_t{1}}}},
                  {{f32({2, 3, 4}), std::nullopt}, {{"axis", int64_t{1}}, {"eps", 0.1}}},
                  {{f16({3, 8}), f16({8})}, {{"axis", int64_t{1}}}}});

}  // namespace
}  // namespace ipu::ops
