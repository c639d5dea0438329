// group_norm: over groups of channels and all elements of a sample that belong to them.
#include <fmt/core.h>

#include <algorithm>

#include "ops/definition/sample_types.h"
#include "ops/normalization/norm_support.h"
#include "ops/normalization/norm_work.h"

namespace ipu::ops {
namespace {

// x as [N, groups, elements of a group].
Shape grouped_shape(const ir::Type& x, int64_t groups) {
  return {x.shape[0], groups, x.elements() / std::max<int64_t>(1, x.shape[0] * groups)};
}

std::vector<ir::Type> group_norm_types(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const int64_t channels = channels_of(c), groups = c.attributes.integer("groups");
  if (groups < 1 || channels % groups != 0)
    shape_error(fmt::format("the {} channels of x {} cannot be divided into groups={}", channels,
                            to_string(x.shape), groups));
  require_per_channel(c, 1, "weight");
  require_per_channel(c, 2, "bias");
  const ir::Type statistic = statistic_type({x.dtype, grouped_shape(x, groups)}, {2});
  return {{x.dtype, x.shape}, statistic, statistic};
}

// Means of each group of channels of x [N, C, ...], as [N, groups, 1]: of channels first, so that images are read as
// they lie in memory.
ir::Value* mean_of_groups(Composer& c, ir::Value* x, int64_t groups) {
  const Shape& shape = x->type().shape;
  if (shape.size() > 2) x = c.reduce("reduce_mean", x, dims_from(2, shape.size()), true);
  x = c.reshape(x, {shape[0], groups, shape[1] / groups});
  return c.reduce("reduce_mean", x, {2}, true);
}

// A value per group [N, groups, 1] for each of its channels, as it broadcasts over x.
ir::Value* for_channels(Composer& c, ir::Value* value, const Shape& x) {
  const int64_t groups = value->type().shape[1];
  Shape channels(x.size(), 1);
  channels[0] = x[0], channels[1] = x[1];
  return c.reshape(c.expand(value, {x[0], groups, x[1] / groups}), channels);
}

std::vector<ir::Value*> group_norm_parts(Composer& c) {
  ir::Value* x = widened(c, c.operand(0));
  const Shape shape = x->type().shape;
  const int64_t groups = c.attributes().integer("groups");
  ir::Value* mean = mean_of_groups(c, x, groups);
  ir::Value* centered = c.sub(x, for_channels(c, mean, shape));
  ir::Value* variance = mean_of_groups(c, c.mul(centered, centered), groups);
  ir::Value* rstd = inverse_deviation(c, variance, c.attributes().real("eps"));
  ir::Value* y = c.mul(centered, for_channels(c, rstd, shape));
  return {affine(c, y, 1, per_channel(shape)), mean, rstd};
}

void import_group_norm(AtenImportCall& call) {
  call.set_result(
      0, call.op("group_norm", {call.tensor("input"), optional(call, "weight"), optional(call, "bias")},
                 {{"groups", call.integer("num_groups")}, {"eps", call.real("eps")}}));
}

// Scale and bias are per channel since version 21; version 18 had them per group.
void import_onnx_group_norm(NodeImportCall& call) {
  if (call.integer("stash_type", 1) != 1) call.unsupported("stash_type other than 1 (float)");
  ir::Value* bias = call.has_operand(2) ? call.operand(2) : nullptr;
  call.set_result(0, call.op("group_norm", {call.operand(0), call.operand(1), bias},
                             {{"groups", call.integer("num_groups")}, {"eps", call.real("epsilon", 1e-5)}}));
}

const OpRegistration group_norm =
    define_op("group_norm", "normalization")
        .doc(
            "(x - mean) * rstd * weight + bias of x [N, C, ...], with the mean and 1 / sqrt(variance + eps) of "
            "each sample's groups of C / groups neighbouring channels; weight and bias per channel.")
        .operand("x", kAnyFloat)
        .optional_operand("weight", kAnyFloat)
        .optional_operand("bias", kAnyFloat)
        .attribute("groups")
        .attribute("eps", 1e-5)
        .result("y")
        .result("mean")
        .result("rstd")
        .batch(sample_batch)
        .infer(group_norm_types)
        .compound(group_norm_parts)
        .work(norm_work)
        .gradient_by_decomposition({"mean", "rstd"})
        .gradient_work(norm_gradient_work(3))
        .from_aten({"group_norm"}, import_group_norm)
        .from_onnx("GroupNormalization", {21}, import_onnx_group_norm)
        .samples({{{f32({2, 4, 3}), f32({4}), f32({4})}, {{"groups", int64_t{2}}}},
                  {{f32({2, 6}), std::nullopt, std::nullopt}, {{"groups", int64_t{3}}, {"eps", 0.1}}},
                  {{f16({1, 4, 2, 2}), f16({4}), f16({4})}, {{"groups", int64_t{1}}}}});

}  // namespace
}  // namespace ipu::ops
