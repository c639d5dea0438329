// batch_norm and instance_norm, whose statistics are those of the channels over the batch or of each sample's
// channels, and batch_norm_inference, to which they are given. The first two also give what running statistics
// become; importers write that to the state.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "ops/definition/popart_operators.h"
#include "ops/definition/sample_types.h"
#include "ops/normalization/norm_support.h"
#include "ops/normalization/norm_work.h"

namespace ipu::ops {
namespace {

enum Operand : int { kX = 0, kWeight = 1, kBias = 2, kRunningMean = 3, kRunningVariance = 4 };
// Further ones of the gradient: what was saved, and the gradients of the results.
enum GradientOperand : int {
  kMean = 5,
  kVariance = 6,
  kGradient = 7,
  kOtherGradients = 8,
  kAllOperands = 12
};

// Dimensions of x [N, C, ...] that statistics are taken over.
std::vector<int64_t> statistic_dims(const Shape& x, bool by_sample) {
  std::vector<int64_t> dims = dims_from(2, x.size());
  if (!by_sample) dims.insert(dims.begin(), 0);
  return dims;
}

int64_t count_of(const Shape& shape, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= shape[static_cast<size_t>(d)];
  return count;
}

std::vector<ir::Type> norm_types(const InferContext& c, bool by_sample) {
  const ir::Type& x = c.operand(kX);
  const int64_t channels = channels_of(c);
  if (by_sample && x.shape.size() < 3)
    shape_error(fmt::format("x {} has no spatial dimensions", to_string(x.shape)));
  static constexpr std::string_view kNames[] = {"x", "weight", "bias", "running_mean", "running_var"};
  for (int i = kWeight; i <= kRunningVariance; ++i) require_per_channel(c, i, kNames[i]);
  const ir::Type statistic = statistic_type(x, statistic_dims(x.shape, by_sample));
  std::vector<ir::Type> types{{x.dtype, x.shape}, statistic, statistic};
  for (const int i : {kRunningMean, kRunningVariance})
    types.push_back({c.has(i) ? c.operand(i).dtype : statistic.dtype, {channels}});
  return types;
}

// (1 - momentum) * running + momentum * statistic; the statistic itself when there is nothing to add it to.
ir::Value* collected(Composer& c, int running, ir::Value* statistic) {
  const int64_t channels = c.operand(kX)->type().shape[1];
  if (!c.has(running)) return c.reshape(statistic, {channels});
  const ir::Type type = c.operand(running)->type();
  ir::Value* wide = widened(c, c.operand(running));
  const double momentum = c.attributes().real("momentum");
  statistic = c.cast(c.reshape(statistic, type.shape), wide->type().dtype);
  ir::Value* kept = c.mul(wide, c.scalar_like(wide, 1.0 - momentum));
  ir::Value* added = c.mul(statistic, c.scalar_like(wide, momentum));
  return c.reshape(c.cast(c.add(kept, added), type.dtype), {channels});
}

std::vector<ir::Value*> norm_parts(Composer& c, bool by_sample) {
  ir::Value* x = widened(c, c.operand(kX));
  const Shape shape = x->type().shape;
  const std::vector<int64_t> dims = statistic_dims(shape, by_sample);
  Statistics s{};
  if (by_sample) {
    s = statistics(c, x, dims);
  } else {
    const ir::Op* moments = c.op("channel_moments", {c.operand(kX)})->producer();
    s = {moments->result(0), moments->result(1), nullptr};
    s.centered = c.sub(x, s.mean);
  }
  ir::Value* y = c.mul(s.centered, inverse_deviation(c, s.variance, c.attributes().real("eps")));
  std::vector<ir::Value*> results{affine(c, y, kWeight, per_channel(shape)), s.mean, s.variance};
  ir::Value *mean = s.mean, *variance = s.variance;
  if (by_sample) {
    mean = c.reduce("reduce_mean", mean, {0}, true);
    variance = c.reduce("reduce_mean", variance, {0}, true);
  }
  if (c.attributes().boolean("unbiased")) {
    const int64_t count = count_of(shape, dims);
    const double factor = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1)
                                    : std::numeric_limits<double>::quiet_NaN();
    variance = c.mul(variance, c.scalar_like(variance, factor));
  }
  results.push_back(collected(c, kRunningMean, mean));
  results.push_back(collected(c, kRunningVariance, variance));
  return results;
}

// With dy and xhat = (x - mean) * rstd the gradient of x is (dy - mean(dy) - xhat * mean(dy * xhat)) * rstd * weight,
// and the two sums in it are those of bias and weight. Two passes over x and dy; the sweep over the parts would
// make five.
std::vector<ir::Value*> norm_gradient(Composer& c, bool by_sample) {
  for (int i = kOtherGradients; i < kAllOperands; ++i)
    if (c.has(i)) return {};
  const std::vector<int64_t>& wants = c.attributes().integers("wants");
  if (!c.has(kGradient) || !c.has(kMean) || !c.has(kVariance) ||
      std::any_of(wants.begin(), wants.end(), [](int64_t i) { return i > kBias; }))
    return {};
  ir::Value *x = widened(c, c.operand(kX)), *dy = widened(c, c.operand(kGradient));
  const Shape shape = x->type().shape;
  const std::vector<int64_t> dims = statistic_dims(shape, by_sample);
  ir::Value* rstd = inverse_deviation(c, c.operand(kVariance), c.attributes().real("eps"));
  // A sum, not the difference that the forward pass makes: that would be merged with this one, and so be kept in
  // memory from there to here.
  ir::Value* xhat = c.mul(c.add(x, c.op("neg", {c.operand(kMean)})), rstd);
  ir::Value *sum = nullptr, *product = nullptr;
  if (by_sample) {
    sum = c.reduce("reduce_sum", dy, dims, true);
    product = c.reduce("reduce_sum", c.mul(dy, xhat), dims, true);
  } else {
    const ir::Op* sums =
        c.op("channel_gradient_sums", {c.operand(kGradient), c.operand(kX), c.operand(kMean), rstd})
            ->producer();
    sum = sums->result(0);
    product = sums->result(1);
  }
  std::vector<ir::Value*> results;
  for (const int64_t want : wants) {
    const ir::Type& type = c.operand(static_cast<int>(want))->type();
    if (want == kX) {
      ir::Value* share = c.scalar_like(x, 1.0 / static_cast<double>(count_of(shape, dims)));
      ir::Value* dx = c.sub(c.sub(dy, c.mul(sum, share)), c.mul(xhat, c.mul(product, share)));
      ir::Value* scale = c.has(kWeight) ? c.mul(rstd, weight_of(c, kWeight, per_channel(shape))) : rstd;
      results.push_back(c.cast(c.mul(dx, scale), type.dtype));
    } else {
      ir::Value* total = want == kWeight ? product : sum;
      if (by_sample) total = c.reduce("reduce_sum", total, {0}, true);
      results.push_back(c.reshape(c.cast(total, type.dtype), type.shape));
    }
  }
  return results;
}

// Means and variances are also added to those of the operands.
std::vector<target::Work> collecting_norm_work(const ir::Op& op) {
  std::vector<target::Work> work = norm_work(op);
  for (const int i : {kRunningMean, kRunningVariance})
    if (i < op.operand_count() && op.operand(i) != nullptr)
      work.push_back(pass_over(op.operand(i)->type(), {"Mul", "Add"}, 2));
  return work;
}

// A factor and a term for each channel, then a pass with both.
std::vector<target::Work> inference_work(const ir::Op& op) {
  return {pass_over(op.operand(1)->type(), {"Add", "Rsqrt", "Mul", "Mul", "Sub"}, 4),
          pass_over(op.result()->type(), {"Mul", "Add"}, 2)};
}

// One multiply and one add per element.
std::vector<ir::Value*> inference_parts(Composer& c) {
  ir::Value* x = widened(c, c.operand(0));
  const Shape channel = per_channel(x->type().shape);
  const DType dtype = x->type().dtype;
  ir::Value* mean = c.cast(c.reshape(c.operand(1), channel), dtype);
  ir::Value* variance = c.cast(c.reshape(c.operand(2), channel), dtype);
  ir::Value* scale = inverse_deviation(c, variance, c.attributes().real("eps"));
  if (c.has(3)) scale = c.mul(scale, weight_of(c, 3, channel));
  ir::Value* shift = c.mul(mean, scale);
  shift = c.has(4) ? c.sub(weight_of(c, 4, channel), shift) : c.op("neg", {shift});
  return {c.cast(c.add(c.mul(x, scale), shift), c.operand(0)->type().dtype)};
}

// --- importers

ir::Value* by_state(AtenImportCall& call) {
  return call.op("batch_norm_inference",
                 {call.tensor("input"), call.tensor("running_mean"), call.tensor("running_var"),
                  optional(call, "weight"), optional(call, "bias")},
                 {{"eps", call.real("eps")}});
}

// Gradients do not flow into the state.
void import_with_statistics(AtenImportCall& call, std::string_view kind) {
  const std::vector<ir::Value*> operands{call.tensor("input"), optional(call, "weight"),
                                         optional(call, "bias"), optional(call, "running_mean"),
                                         optional(call, "running_var")};
  const ir::Op* norm = build_op(call.builder(), kind, operands,
                                {{"eps", call.real("eps")}, {"momentum", call.real("momentum")}});
  call.set_result(0, norm->result(0));
  if (call.has("running_mean")) call.write("running_mean", call.op("detach", {norm->result(3)}));
  if (call.has("running_var")) call.write("running_var", call.op("detach", {norm->result(4)}));
}

void import_batch_norm(AtenImportCall& call) {
  if (!call.boolean("training") && call.has("running_mean")) return call.set_result(0, by_state(call));
  import_with_statistics(call, "batch_norm");
}

void import_instance_norm(AtenImportCall& call) {
  if (!call.boolean("use_input_stats")) return call.set_result(0, by_state(call));
  import_with_statistics(call, "instance_norm");
}

// Whether the node uses the statistics of its batch: said by an attribute before version 7 and from 14 on, by
// the number of its results in between.
bool uses_batch(NodeImportCall& call) {
  if (call.version() >= 14) return call.integer("training_mode", 0) == 1;
  bool has_more = false;
  for (int i = 1; i < call.result_count(); ++i) has_more = has_more || call.has_result(i);
  if (call.version() >= 7) return has_more;
  return call.integer("is_test", 0) == 0 && (has_more || !call.is_popart());
}

void import_onnx_batch_norm(NodeImportCall& call) {
  const Shape& shape = call.operand(0)->type().shape;
  if (call.is_popart() && shape.size() < 3)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which must have at least three "
                            "dimensions.",
                            call.described(), to_string(shape)));
  if (shape.size() < 2)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {}, which has no channels.",
                                                      call.described(), to_string(shape)));
  // Without `spatial` every element of a sample has statistics of its own.
  const bool by_element = call.version() < 9 && call.integer("spatial", 1) == 0;
  const Shape channels = by_element ? Shape(shape.begin() + 1, shape.end()) : Shape{shape[1]};
  const double eps = call.real("epsilon", 1e-5), momentum = call.real("momentum", 0.9);
  for (int i = 1; i <= 4; ++i)
    if (call.operand(i)->type().shape != channels)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: operand {} of {} is {}; it must be {}, as x is {}.", i,
                              call.described(), to_string(call.operand(i)->type().shape), to_string(channels),
                              to_string(shape)));
  std::vector<ir::Value*> x;  // x, scale, bias, mean, variance
  for (int i = 0; i < 5; ++i) x.push_back(call.operand(i));
  if (by_element) {
    const int64_t size = element_count(channels);
    x[0] = reshaped(call, x[0], {shape[0], size});
    for (size_t i = 1; i < 5; ++i) x[i] = reshaped(call, x[i], {size});
  }
  if (!uses_batch(call)) {
    ir::Value* y = call.op("batch_norm_inference", {x[0], x[3], x[4], x[1], x[2]}, {{"eps", eps}});
    y = reshaped(call, y, shape);
    return call.set_result(0, call.is_popart() ? forward_only(call, y) : y);
  }
  // ONNX's momentum is the share that stays, and it collects the variance of the batch alone.
  const ir::Op* norm = build_op(call.builder(), "batch_norm", x,
                                {{"eps", eps}, {"momentum", 1.0 - momentum}, {"unbiased", false}});
  call.set_result(0, reshaped(call, norm->result(0), shape));
  for (int i = 0; i < 2; ++i) {
    ir::Value* next = reshaped(call, call.op("detach", {norm->result(3 + i)}), channels);
    call.set_result(1 + i, next);
    if (!call.is_popart() || call.is_initialiser(3 + i)) call.write(3 + i, next);
    if (!call.has_result(3 + i)) continue;
    ir::Value* saved = call.cast(norm->result(1 + i), x[3 + i]->type().dtype);  // the statistics are f32
    call.set_result(3 + i, reshaped(call, call.op("detach", {saved}), channels));
  }
}

void import_onnx_instance_norm(NodeImportCall& call) {
  const Shape& shape = call.operand(0)->type().shape;
  if (shape.size() < 3)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which has no spatial dimensions.", call.described(),
                            to_string(shape)));
  ir::Value* bias = call.has_operand(2) ? call.operand(2) : nullptr;
  call.set_result(0, call.op("instance_norm", {call.operand(0), call.operand(1), bias},
                             {{"eps", call.real("epsilon", 1e-5)}}));
}

// --- definitions

OpDefBuilder norm(std::string name, bool by_sample, std::string doc) {
  OpDefBuilder builder = define_op(std::move(name), "normalization");
  builder.doc(std::move(doc))
      .operand("x", kAnyFloat)
      .optional_operand("weight", kAnyFloat)
      .optional_operand("bias", kAnyFloat)
      .optional_operand("running_mean", kAnyFloat)
      .optional_operand("running_var", kAnyFloat)
      .attribute("eps", 1e-5)
      .attribute("momentum", 0.1)
      .attribute("unbiased", true)
      .result("y")
      .result("mean")
      .result("variance")
      .result("next_mean")
      .result("next_var")
      .infer([by_sample](const InferContext& c) { return norm_types(c, by_sample); })
      .compound([by_sample](Composer& c) { return norm_parts(c, by_sample); })
      .work(collecting_norm_work)
      .gradient_by_decomposition({"mean", "variance"},
                                 [by_sample](Composer& c) { return norm_gradient(c, by_sample); })
      .gradient_work(norm_gradient_work(kMean))
      .samples({{{f32({4, 3, 2}), f32({3}), f32({3}), f32({3}), f32({3})}, {{"momentum", 0.25}}},
                {{f32({2, 3, 2, 2}), f32({3}), f32({3})}, {{"eps", 0.1}, {"unbiased", false}}},
                {{f32({3, 2, 4}), std::nullopt, std::nullopt, f32({2}), f32({2})}, {}},
                {{f16({2, 4, 3}), f16({4}), f16({4}), f32({4}), f32({4})}, {}}});
  return builder;
}

const OpRegistration batch_norm =
    norm(
        "batch_norm", false,
        "(x - mean) / sqrt(variance + eps) * weight + bias of x [N, C, ...] with the mean and biased variance "
        "of each channel; weight and bias per channel. next_mean and next_var are (1 - momentum) * running + "
        "momentum * that of the batch, with the unbiased variance if so said; without the running operand "
        "that of the batch.")
        .from_aten({"batch_norm"}, import_batch_norm)
        .from_onnx("BatchNormalization", {6}, import_onnx_batch_norm);

const OpRegistration instance_norm =
    norm("instance_norm", true,
         "As batch_norm, with the mean and variance of each channel of each sample; next_mean and next_var "
         "collect their means over the samples.")
        .from_aten({"instance_norm"}, import_instance_norm)
        .from_onnx("InstanceNormalization", {6}, import_onnx_instance_norm);

const OpRegistration batch_norm_inference =
    define_op("batch_norm_inference", "normalization")
        .doc(
            "(x - mean) / sqrt(variance + eps) * weight + bias of x [N, C, ...] with a mean, variance, weight "
            "and bias per channel that are given.")
        .operand("x", kAnyFloat)
        .operand("mean", kAnyFloat)
        .operand("variance", kAnyFloat)
        .optional_operand("weight", kAnyFloat)
        .optional_operand("bias", kAnyFloat)
        .attribute("eps", 1e-5)
        .result("y")
        .batch(sample_batch)
        .infer([](const InferContext& c) {
          static constexpr std::string_view kNames[] = {"x", "mean", "variance", "weight", "bias"};
          for (int i = 1; i <= 4; ++i) require_per_channel(c, i, kNames[i]);
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
        })
        .compound(inference_parts)
        .work(inference_work)
        .gradient_by_decomposition()
        .samples({{{f32({4, 3, 2}), f32({3}), f32({3}), f32({3}), f32({3})}, {}, -1, 1, {{2, {0.5, 1.5}}}},
                  {{f32({4, 3}), f32({3}), f32({3})}, {{"eps", 0.1}}, -1, 1, {{2, {0.5, 1.5}}}},
                  {{f16({2, 3, 2}), f32({3}), f32({3}), f16({3}), f16({3})}, {}, -1, 1, {{2, {0.5, 1.5}}}}});

const PopartOperators batch_norm_popart = {{
    {"BatchNormalization", "6 7 9", "X:F scale:F B:F mean:F var:F",
     "Y:F mean:F var:F saved_mean:F saved_var:F", "yes", "epsilon is_test momentum spatial"},
    {"InstanceNormalization", "6", "input:F scale:F B:F", "output:F", "yes", "epsilon"},
}};

}  // namespace
}  // namespace ipu::ops
