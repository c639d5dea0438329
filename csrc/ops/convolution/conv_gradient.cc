// Gradients of conv as ops of their own. A transposed convolution is conv_input_gradient, too. Each is linear
// in both operands, so their own gradients are again these ops.
#include <fmt/core.h>

#include "ops/convolution/convolution_work.h"
#include "ops/convolution/window.h"
#include "ops/definition/sample_types.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

// x, weight and y are the shapes of a convolution; checks that they belong together.
void check_convolution(const InferContext& c, const Shape& x, const Shape& w, const Shape& y) {
  if (x.size() < 3 || x.size() > 4 || w.size() != x.size() || y.size() != x.size()) {
    shape_error(fmt::format("input {}, weight {} and output {} must all have 3 or all have 4 dimensions",
                            to_string(x), to_string(w), to_string(y)));
  }
  const int64_t groups = c.attributes.integer("groups");
  Shape expected{x[0], w[0]};
  const Shape sizes = output_sizes(read_window(c, spatial(w)), spatial(x));
  expected.insert(expected.end(), sizes.begin(), sizes.end());
  if (groups < 1 || w[0] % groups != 0 || w[1] * groups != x[1] || expected != y) {
    shape_error(fmt::format("input {} and weight {} with groups={} give {}, not dy {}", to_string(x),
                            to_string(w), groups, to_string(expected), to_string(y)));
  }
}

struct Extents {
  int64_t batch, channels, outputs, depth, per_group, in_size, out_size, taps;
};
Extents extents_of(const Shape& x, const Shape& w, const Shape& y, int64_t groups) {
  const auto size = [](const Shape& shape) { return element_count(std::span(shape).subspan(2)); };
  return {x[0], x[1], w[0], w[1], w[0] / groups, size(x), size(y), size(w)};
}

void input_gradient_reference(ReferenceCall& call) {
  const ReferenceTensor &dy = call.operand(0), &w = call.operand(1);
  ReferenceTensor& dx = call.result();
  const Extents e = extents_of(dx.type.shape, w.type.shape, dy.type.shape, call.attributes.integer("groups"));
  const Window window = read_window(call.attributes, spatial(w.type.shape));
  const Shape in = spatial(dx.type.shape);
  for_each_position(spatial(dy.type.shape), [&](int64_t position, const std::vector<int64_t>& at) {
    for_each_tap(window, in, at, [&](int64_t tap, int64_t offset) {
      for (int64_t n = 0; n < e.batch; ++n) {
        for (int64_t o = 0; o < e.outputs; ++o) {
          const double upstream = dy.values[(n * e.outputs + o) * e.out_size + position];
          const int64_t first = o / e.per_group * e.depth;
          for (int64_t i = 0; i < e.depth; ++i) {
            dx.values[(n * e.channels + first + i) * e.in_size + offset] +=
                upstream * w.values[(o * e.depth + i) * e.taps + tap];
          }
        }
      }
    });
  });
}

void weight_gradient_reference(ReferenceCall& call) {
  const ReferenceTensor &x = call.operand(0), &dy = call.operand(1);
  ReferenceTensor& dw = call.result();
  const Extents e = extents_of(x.type.shape, dw.type.shape, dy.type.shape, call.attributes.integer("groups"));
  const Window window = read_window(call.attributes, spatial(dw.type.shape));
  const Shape in = spatial(x.type.shape);
  for_each_position(spatial(dy.type.shape), [&](int64_t position, const std::vector<int64_t>& at) {
    for_each_tap(window, in, at, [&](int64_t tap, int64_t offset) {
      for (int64_t n = 0; n < e.batch; ++n) {
        for (int64_t o = 0; o < e.outputs; ++o) {
          const double upstream = dy.values[(n * e.outputs + o) * e.out_size + position];
          const int64_t first = o / e.per_group * e.depth;
          for (int64_t i = 0; i < e.depth; ++i) {
            dw.values[(o * e.depth + i) * e.taps + tap] +=
                upstream * x.values[(n * e.channels + first + i) * e.in_size + offset];
          }
        }
      }
    });
  });
}

Attributes with(Attributes attributes, std::string_view name, Shape shape) {
  attributes.set(name, std::move(shape));
  return attributes;
}

Attributes window_of(Shape strides, Shape low, Shape high, Shape dilations, int64_t groups = 1) {
  return {{"strides", strides},
          {"padding_low", low},
          {"padding_high", high},
          {"dilations", dilations},
          {"groups", groups}};
}

const OpRegistration conv_input_gradient =
    define_op("conv_input_gradient", "convolution")
        .doc("Gradient of conv for x, whose shape is input_shape.")
        .operand("dy", kAnyFloat)
        .operand("weight", kAnyFloat)
        .attribute("input_shape")
        .attribute("strides")
        .attribute("padding_low")
        .attribute("padding_high")
        .attribute("dilations")
        .attribute("groups", int64_t{1})
        .result("dx")
        .traits(kConvolution | kExpensive)
        .layouts([](const ir::Op& op) {
          return LayoutWishes{{LayoutWish::kChannelsLast, weight_wish(op)}, {LayoutWish::kChannelsLast}};
        })
        .infer([](const InferContext& c) {
          const Shape& x = c.attributes.integers("input_shape");
          require_same_dtype(c, 0, 1);
          check_convolution(c, x, c.operand(1).shape, c.operand(0).shape);
          return std::vector<ir::Type>{{c.operand(0).dtype, x, c.operand(0).layout}};
        })
        .gradient([](GradientBuilder& g) {
          const Attributes window = window_attributes(g.attributes());
          if (g.needs(0)) g.set(0, g.op("conv", {g.upstream(), g.operand(1)}, window));
          if (g.needs(1)) {
            g.set(1, g.op("conv_weight_gradient", {g.upstream(), g.operand(0)},
                          with(window, "kernel_shape", g.operand_type(1).shape)));
          }
        })
        .reference(input_gradient_reference)
        .work([](const ir::Op& op) {
          return convolution_work(op, target::ConvolutionPass::kDataGradient, [](const ir::Op& gradient) {
            return ConvolutionShapes{gradient.result()->type().shape, gradient.operand(1)->type().shape};
          });
        })
        .samples({{{f32({2, 2, 3, 3}), f32({2, 3, 3, 2})},
                   with(window_of({1, 1}, {0, 0}, {0, 0}, {1, 1}), "input_shape", {2, 3, 5, 4})},
                  {{f32({1, 6, 4, 2}), f32({6, 2, 2, 3})},
                   with(window_of({2, 1}, {1, 1}, {1, 0}, {1, 2}, 2), "input_shape", {1, 4, 6, 5})},
                  {{f32({2, 3, 3}), f32({3, 2, 3})},
                   with(window_of({2}, {1}, {2}, {2}), "input_shape", {2, 2, 7})}});

const OpRegistration conv_weight_gradient =
    define_op("conv_weight_gradient", "convolution")
        .doc("Gradient of conv for the weight, whose shape is kernel_shape ([O, C / groups, kernel...]).")
        .operand("x", kAnyFloat)
        .operand("dy", kAnyFloat)
        .attribute("kernel_shape")
        .attribute("strides")
        .attribute("padding_low")
        .attribute("padding_high")
        .attribute("dilations")
        .attribute("groups", int64_t{1})
        .result("dw")
        .traits(kConvolution | kExpensive)
        .layouts([](const ir::Op& op) {
          return LayoutWishes{{LayoutWish::kChannelsLast, LayoutWish::kChannelsLast}, {weight_wish(op)}};
        })
        .infer([](const InferContext& c) {
          const Shape& w = c.attributes.integers("kernel_shape");
          require_same_dtype(c, 0, 1);
          check_convolution(c, c.operand(0).shape, w, c.operand(1).shape);
          return std::vector<ir::Type>{{c.operand(0).dtype, w}};
        })
        .gradient([](GradientBuilder& g) {
          const Attributes window = window_attributes(g.attributes());
          if (g.needs(0)) {
            g.set(0, g.op("conv_input_gradient", {g.operand(1), g.upstream()},
                          with(window, "input_shape", g.operand_type(0).shape)));
          }
          if (g.needs(1)) g.set(1, g.op("conv", {g.operand(0), g.upstream()}, window));
        })
        .reference(weight_gradient_reference)
        .work([](const ir::Op& op) {
          return convolution_work(op, target::ConvolutionPass::kWeightGradient, [](const ir::Op& gradient) {
            return ConvolutionShapes{gradient.operand(0)->type().shape, gradient.result()->type().shape};
          });
        })
        .samples({{{f32({2, 3, 5, 4}), f32({2, 2, 3, 3})},
                   with(window_of({1, 1}, {0, 0}, {0, 0}, {1, 1}), "kernel_shape", {2, 3, 3, 2})},
                  {{f32({1, 4, 6, 5}), f32({1, 6, 4, 2})},
                   with(window_of({2, 1}, {1, 1}, {1, 0}, {1, 2}, 2), "kernel_shape", {6, 2, 2, 3})},
                  {{f32({2, 2, 7}), f32({2, 3, 3})},
                   with(window_of({2}, {1}, {2}, {2}), "kernel_shape", {3, 2, 3})}});

}  // namespace
}  // namespace ipu::ops
