// See volume.h. The planes a window along the depth sees stand behind each other as C * KD channels of one
// image; since they follow their channel, groups stay groups.
#include "ops/convolution/volume.h"

namespace ipu::ops {
namespace {

constexpr int64_t kDepth = 2;

struct Depth {
  int64_t kernel, stride, low, high, dilation;

  Depth(const Attributes& attributes, int64_t kernel_size)
      : kernel(kernel_size),
        stride(attributes.integers("strides")[0]),
        low(attributes.integers("padding_low")[0]),
        high(attributes.integers("padding_high")[0]),
        dilation(attributes.integers("dilations")[0]) {}

  int64_t windows(int64_t size) const {
    return (size + low + high - dilation * (kernel - 1) - 1) / stride + 1;
  }
  // Lists the planes of each window, for all windows in order, as numbers in the padded depth.
  ir::Value* planes(ImportCall& call, int64_t count) const {
    std::vector<int32_t> places;
    for (int64_t w = 0; w < count; ++w)
      for (int64_t k = 0; k < kernel; ++k) places.push_back(static_cast<int32_t>(w * stride + k * dilation));
    return call.builder().constant(ir::make_constant(DType::kI32, {std::ssize(places)}, places.data()));
  }
};

Attributes of_planes(const Attributes& attributes) {
  Attributes result = attributes;
  for (const char* name : {"strides", "padding_low", "padding_high", "dilations"}) {
    const std::vector<int64_t>& all = attributes.integers(name);
    result.set(name, std::vector<int64_t>{all[1], all[2]});
  }
  return result;
}

ir::Value* flat_weight(ImportCall& call, ir::Value* weight) {
  const Shape& w = weight->type().shape;
  return reshaped(call, weight, {w[0], w[1] * w[2], w[3], w[4]});
}

// x [N, C, D, H, W] as images [N * windows, C * KD, H, W].
ir::Value* seen_planes(ImportCall& call, ir::Value* x, const Depth& depth) {
  const Shape s = x->type().shape;
  const int64_t count = depth.windows(s[kDepth]);
  if (count < 1) call.unsupported("a kernel deeper than the padded input");
  if (depth.low != 0 || depth.high != 0) {
    x = call.op(
        "pad", {x},
        {{"low", Shape{0, 0, depth.low, 0, 0}}, {"high", Shape{0, 0, depth.high, 0, 0}}, {"value", 0.0}});
  }
  x = call.op("index_select", {x, depth.planes(call, count)}, {{"dim", kDepth}});
  x = transposed(call, reshaped(call, x, {s[0], s[1], count, depth.kernel, s[3], s[4]}), {0, 2, 1, 3, 4, 5});
  return reshaped(call, x, {s[0] * count, s[1] * depth.kernel, s[3], s[4]});
}

// [N, C, D, H, W] as [N * D, C, H, W].
ir::Value* as_images(ImportCall& call, ir::Value* x) {
  const Shape s = x->type().shape;
  return reshaped(call, transposed(call, x, {0, 2, 1, 3, 4}), {s[0] * s[kDepth], s[1], s[3], s[4]});
}

}  // namespace

ir::Value* volume_convolution(ImportCall& call, ir::Value* x, ir::Value* weight, ir::Value* bias,
                              const Attributes& attributes) {
  const Depth depth(attributes, weight->type().shape[kDepth]);
  const int64_t batch = x->type().shape[0], count = depth.windows(x->type().shape[kDepth]);
  x = seen_planes(call, x, depth);
  weight = flat_weight(call, weight);
  ir::Value* y = bias != nullptr ? call.op("conv", {x, weight, bias}, of_planes(attributes))
                                 : call.op("conv", {x, weight}, of_planes(attributes));
  const Shape out = y->type().shape;
  return transposed(call, reshaped(call, y, {batch, count, out[1], out[2], out[3]}), {0, 2, 1, 3, 4});
}

ir::Value* volume_weight_gradient(ImportCall& call, ir::Value* x, ir::Value* dy,
                                  const Attributes& attributes) {
  const Shape weight = attributes.integers("kernel_shape");
  const Depth depth(attributes, weight[kDepth]);
  Attributes planes = of_planes(attributes);
  planes.set("kernel_shape", Shape{weight[0], weight[1] * weight[2], weight[3], weight[4]});
  x = seen_planes(call, x, depth);
  return reshaped(call, call.op("conv_weight_gradient", {x, as_images(call, dy)}, planes), weight);
}

ir::Value* transposed_volume_convolution(ImportCall& call, ir::Value* x, ir::Value* weight,
                                         const Attributes& attributes) {
  const Depth depth(attributes, weight->type().shape[kDepth]);
  const Shape s = x->type().shape, result = attributes.integers("input_shape");
  const int64_t count = s[kDepth], height = result[3], width = result[4];
  x = as_images(call, x);
  Attributes planes = of_planes(attributes);
  planes.set("input_shape", Shape{s[0] * count, result[1] * depth.kernel, height, width});
  ir::Value* y = call.op("conv_input_gradient", {x, flat_weight(call, weight)}, planes);
  y = reshaped(call, y, {s[0], count, result[1], depth.kernel, height, width});
  y = reshaped(call, transposed(call, y, {0, 2, 1, 3, 4, 5}),
               {s[0], result[1], count * depth.kernel, height, width});
  ir::Value* zeros = call.builder().splat(
      {y->type().dtype, {s[0], result[1], result[kDepth] + depth.low + depth.high, height, width}}, 0.0);
  y = call.op("index_add", {zeros, depth.planes(call, count), y}, {{"dim", kDepth}});
  return sliced(call, y, kDepth, depth.low, result[kDepth]);
}

}  // namespace ipu::ops
