// conv: 1-d and 2-d convolution (cross-correlation, as torch), channels in groups. Gradients are in
// conv_gradient.cc, importers in conv_importers.cc.
#include <fmt/core.h>

#include "ops/convolution/convolution_work.h"
#include "ops/convolution/window.h"
#include "ops/definition/sample_types.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

ir::Type conv_type(const InferContext& c) {
  const ir::Type &x = c.operand(0), &w = c.operand(1);
  require_same_dtype(c, 0, 1);
  if (x.shape.size() < 3 || x.shape.size() > 4 || w.shape.size() != x.shape.size()) {
    shape_error(fmt::format("x {} must be [N,C,L] or [N,C,H,W] and the weight {} have as many dimensions",
                            to_string(x.shape), to_string(w.shape)));
  }
  const int64_t groups = c.attributes.integer("groups");
  if (groups < 1 || w.shape[0] % groups != 0 || w.shape[1] * groups != x.shape[1]) {
    shape_error(
        fmt::format("x {} has {} channels; "
                    "the weight {} with groups={} takes {} and gives a multiple of groups",
                    to_string(x.shape), x.shape[1], to_string(w.shape), groups, w.shape[1] * groups));
  }
  if (c.has(2)) {
    require_same_dtype(c, 0, 2);
    if (c.operand(2).shape != Shape{w.shape[0]}) {
      shape_error(fmt::format("the bias {} must have one element per output channel, {}",
                              to_string(c.operand(2).shape), w.shape[0]));
    }
  }
  ir::Type y{x.dtype, {x.shape[0], w.shape[0]}, x.layout};
  const Shape sizes = output_sizes(read_window(c, spatial(w.shape)), spatial(x.shape));
  y.shape.insert(y.shape.end(), sizes.begin(), sizes.end());
  return y;
}

void conv_reference(ReferenceCall& call) {
  const ReferenceTensor &x = call.operand(0), &w = call.operand(1);
  ReferenceTensor& y = call.result();
  const Window window = read_window(call.attributes, spatial(w.type.shape));
  const Shape in = spatial(x.type.shape), out = spatial(y.type.shape);
  const int64_t in_size = element_count(in), out_size = element_count(out),
                taps = element_count(window.kernel);
  const int64_t channels = x.type.shape[1], outputs = y.type.shape[1], depth = w.type.shape[1];
  const int64_t per_group = outputs / call.attributes.integer("groups");
  for_each_position(out, [&](int64_t position, const std::vector<int64_t>& at) {
    for_each_tap(window, in, at, [&](int64_t tap, int64_t offset) {
      for (int64_t n = 0; n < x.type.shape[0]; ++n) {
        for (int64_t o = 0; o < outputs; ++o) {
          const int64_t first = o / per_group * depth;
          double sum = 0.0;
          for (int64_t i = 0; i < depth; ++i) {
            sum += x.values[(n * channels + first + i) * in_size + offset] *
                   w.values[(o * depth + i) * taps + tap];
          }
          y.values[(n * outputs + o) * out_size + position] += sum;
        }
      }
    });
  });
  if (!call.has(2)) return;
  for (size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] += call.operand(2).values[static_cast<int64_t>(i) / out_size % outputs];
  }
}

void conv_gradient(GradientBuilder& g) {
  ir::Value* dy = g.upstream();
  Attributes attributes = window_attributes(g.attributes());
  if (g.needs(0)) {
    Attributes with_shape = attributes;
    with_shape.set("input_shape", g.operand_type(0).shape);
    g.set(0, g.op("conv_input_gradient", {dy, g.operand(1)}, with_shape));
  }
  if (g.needs(1)) {
    Attributes with_shape = attributes;
    with_shape.set("kernel_shape", g.operand_type(1).shape);
    g.set(1, g.op("conv_weight_gradient", {g.operand(0), dy}, with_shape));
  }
  if (g.has_operand(2) && g.needs(2)) {
    std::vector<int64_t> dims{0};
    for (size_t d = 2; d < dy->type().shape.size(); ++d) dims.push_back(static_cast<int64_t>(d));
    g.set(2, g.sum(dy, dims, false));
  }
}

std::vector<target::Work> conv_work(const ir::Op& op) {
  std::vector<target::Work> work = forward_convolution_work(op);
  const bool has_bias = op.operand_count() > 2 && op.operand(2) != nullptr;
  if (has_bias) work.push_back(pass_over(op.result()->type(), {"Add"}, 2));
  return work;
}

Attributes window_of(Shape strides, Shape low, Shape high, Shape dilations, int64_t groups = 1) {
  return {{"strides", strides},
          {"padding_low", low},
          {"padding_high", high},
          {"dilations", dilations},
          {"groups", groups}};
}

const OpRegistration conv =
    define_op("conv", "convolution")
        .doc(
            "Convolution of x [N, C, L] or [N, C, H, W] with weight [O, C / groups, kernel...], plus bias "
            "[O].")
        .operand("x", kAnyFloat)
        .operand("weight", kAnyFloat)
        .optional_operand("bias", kAnyFloat)
        .attribute("strides")
        .attribute("padding_low")
        .attribute("padding_high")
        .attribute("dilations")
        .attribute("groups", int64_t{1})
        .result("y")
        .traits(kConvolution | kExpensive)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{conv_type(c)}; })
        .gradient(conv_gradient)
        .reference(conv_reference)
        .layouts([](const ir::Op& op) {
          return LayoutWishes{{LayoutWish::kChannelsLast, weight_wish(op)}, {LayoutWish::kChannelsLast}};
        })
        .work(conv_work)
        .batch(sample_batch)
        .samples(
            {{{f32({2, 3, 5, 4}), f32({2, 3, 3, 2}), f32({2})}, window_of({1, 1}, {0, 0}, {0, 0}, {1, 1})},
             {{f32({1, 4, 6, 5}), f32({6, 2, 2, 3}), f32({6})}, window_of({2, 1}, {1, 1}, {1, 0}, {1, 2}, 2)},
             {{f32({2, 2, 4, 4}), f32({2, 1, 3, 3})}, window_of({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2)},
             {{f32({2, 2, 7}), f32({3, 2, 3}), f32({3})}, window_of({2}, {1}, {2}, {2})}});

}  // namespace
}  // namespace ipu::ops
