// max_pool and its gradient: 1-d and 2-d, the first maximum of a window in row-major order gets the gradient,
// NaN wins.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "ops/convolution/window.h"
#include "ops/definition/composer.h"
#include "ops/definition/sample_types.h"
#include "ops/pooling/pool_support.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

ir::Type max_pool_type(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  if (x.shape.size() < 3 || x.shape.size() > 4) {
    shape_error(fmt::format("x {} must be [N,C,L] or [N,C,H,W]", to_string(x.shape)));
  }
  const Window window = read_window(c, per_dimension(c, "kernel", x.shape.size() - 2, 1));
  const Shape sizes = output_sizes(window, spatial(x.shape));
  require_input_in_windows(window, std::span(x.shape).subspan(2), sizes);
  ir::Type y{x.dtype, {x.shape[0], x.shape[1]}, x.layout};
  y.shape.insert(y.shape.end(), sizes.begin(), sizes.end());
  return y;
}

// Calls visit(result element, input element of the maximum) for all windows; -1 where a dilated window steps
// over the whole input.
template <typename Visit>
void for_each_maximum(const ReferenceTensor& x, const Shape& result, const Attributes& attributes,
                      Visit visit) {
  const Window window = read_window(attributes, attributes.integers("kernel"));
  const Shape in = spatial(x.type.shape), out = spatial(result);
  const int64_t in_size = element_count(in), out_size = element_count(out);
  for_each_position(out, [&](int64_t position, const std::vector<int64_t>& at) {
    for (int64_t plane = 0; plane < result[0] * result[1]; ++plane) {
      int64_t best = -1;
      for_each_tap(window, in, at, [&](int64_t, int64_t offset) {
        const int64_t element = plane * in_size + offset;
        if (best < 0 || x.values[element] > x.values[best] || std::isnan(x.values[element])) {
          if (best < 0 || !std::isnan(x.values[best])) best = element;
        }
      });
      visit(plane * out_size + position, best);
    }
  });
}

Attributes pool_of(Shape kernel, Shape strides, Shape low, Shape high, Shape dilations) {
  return {{"kernel", kernel},
          {"strides", strides},
          {"padding_low", low},
          {"padding_high", high},
          {"dilations", dilations}};
}

Sample equal_elements(Shape x, Shape y, Attributes attributes) {
  return {{f32(x), f32(y), f32(y)}, std::move(attributes), -1, 1, {{0, {0.5, 0.5}}, {1, {0.5, 0.5}}}};
}

// Element k of every window of a padded tensor, in the order in which the first maximum is looked for.
std::vector<Attributes> taps_of(const Window& window, const Shape& y) {
  std::vector<Attributes> taps;
  for_each_position(window.kernel, [&](int64_t, const std::vector<int64_t>& at) {
    Shape starts{0, 0}, steps{1, 1};
    for (size_t d = 0; d < at.size(); ++d) {
      starts.push_back(at[d] * window.dilations[d]);
      steps.push_back(window.strides[d]);
    }
    taps.push_back({{"starts", starts}, {"sizes", y}, {"steps", steps}});
  });
  return taps;
}

// What differentiating it once more needs: dy goes to the first element of each window that is the maximum,
// for each place in the window as one masked write. Only padding is left out, as it never wins.
std::vector<ir::Value*> max_pool_gradient_parts(ir::Op& op) {
  Composer c(op);
  ir::Value *x = c.operand(0), *dy = c.operand(2);
  const Window window = read_window(c.attributes(), c.attributes().integers("kernel"));
  const DType dtype = x->type().dtype;
  Shape low{0, 0}, high{0, 0};
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    low.push_back(window.padding_low[d]);
    high.push_back(window.padding_high[d]);
  }
  const auto padded = [&](ir::Value* value, double with) {
    return c.op("pad", {value}, {{"low", low}, {"high", high}, {"value", with}});
  };
  ir::Value* y = c.op("max_pool", {x}, c.attributes());
  ir::Value* wide = padded(x, 0.0);
  ir::Value* inside = padded(c.builder().splat({DType::kBool, x->type().shape}, 1.0), 0.0);
  ir::Value* nothing = c.builder().splat({dtype, wide->type().shape}, 0.0);
  ir::Value* taken = nullptr;
  std::vector<ir::Value*> terms;
  for (const Attributes& tap : taps_of(window, y->type().shape)) {
    ir::Value* element = c.op("slice", {wide}, tap);
    ir::Value* wins = c.op("logical_or", {c.op("equal", {element, y}), c.op("is_nan", {element})});
    wins = c.op("logical_and", {wins, c.op("slice", {inside}, tap)});
    if (taken != nullptr) wins = c.op("logical_and", {wins, c.op("logical_not", {taken})});
    taken = taken == nullptr ? wins : c.op("logical_or", {taken, wins});
    ir::Value* share = c.op("where", {wins, dy, c.scalar(dtype, 0.0)});
    terms.push_back(c.op("slice_scatter", {nothing, share}, tap));
  }
  ir::Value* sum = build_op(c.builder(), "add_n", terms)->result();
  return {
      c.op("slice", {sum}, {{"starts", low}, {"sizes", x->type().shape}, {"steps", Shape(low.size(), 1)}})};
}

const OpRegistration max_pool =
    define_op("max_pool", "pooling")
        .doc(
            "Largest element of each window over the spatial dimensions of x [N, C, L] or [N, C, H, W]; "
            "padding never "
            "wins.")
        .operand("x", kAnyFloat)
        .attribute("kernel")
        .attribute("strides")
        .attribute("padding_low")
        .attribute("padding_high")
        .attribute("dilations")
        .result("y")
        .traits(kPooling)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{max_pool_type(c)}; })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("max_pool_gradient", {g.operand(0), g.result(), g.upstream()},
                        window_attributes(g.attributes())));
        })
        .reference([](ReferenceCall& call) {
          const std::vector<double>& x = call.operand(0).values;
          std::vector<double>& y = call.result().values;
          for_each_maximum(call.operand(0), call.result().type.shape, call.attributes,
                           [&](int64_t result, int64_t element) {
                             y[result] = element < 0 ? -std::numeric_limits<double>::infinity() : x[element];
                           });
        })
        .batch(sample_batch)
        .work([](const ir::Op& op) { return window_work(op, op.result()->type(), "Pool"); })
        .samples({{{f32({2, 3, 4, 6})}, pool_of({2, 3}, {2, 3}, {0, 0}, {0, 0}, {1, 1})},
                  {{f32({1, 2, 5, 5})}, pool_of({3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1})},
                  {{f32({1, 1, 6, 5})}, pool_of({2, 2}, {1, 2}, {0, 0}, {0, 1}, {2, 1})},
                  {{f32({2, 2, 7})}, pool_of({3}, {2}, {1}, {1}, {1})}});

const OpRegistration max_pool_gradient =
    define_op("max_pool_gradient", "pooling")
        .doc("Gradient of max_pool: dy goes to the first maximum of each window.")
        .operand("x", kAnyFloat)
        .operand("y", kAnyFloat)
        .operand("dy", kAnyFloat)
        .attribute("kernel")
        .attribute("strides")
        .attribute("padding_low")
        .attribute("padding_high")
        .attribute("dilations")
        .result("dx")
        .traits(kPooling)
        .infer([](const InferContext& c) {
          const ir::Type y = max_pool_type(c);
          require_same_dtype(c, 0, 1);
          require_same_dtype(c, 0, 2);
          require_same_shape(c, 1, 2);
          if (c.operand(1).shape != y.shape) {
            shape_error(fmt::format("y {} is not the pooled x, {}", to_string(c.operand(1).shape),
                                    to_string(y.shape)));
          }
          return std::vector<ir::Type>{c.operand(0)};
        })
        .decompose(max_pool_gradient_parts)
        .reference([](ReferenceCall& call) {
          const std::vector<double>& dy = call.operand(2).values;
          std::vector<double>& dx = call.result().values;
          for_each_maximum(call.operand(0), call.operand(2).type.shape, call.attributes,
                           [&](int64_t result, int64_t element) {
                             if (element >= 0) dx[element] += dy[result];
                           });
        })
        .work([](const ir::Op& op) { return window_work(op, op.operand(1)->type(), "MaxPoolSlope"); })
        // y must be the maximum of x: here all elements are equal, so that every window has ties.
        .samples({equal_elements({2, 3, 4, 6}, {2, 3, 2, 2}, pool_of({2, 3}, {2, 3}, {0, 0}, {0, 0}, {1, 1})),
                  equal_elements({1, 2, 5, 5}, {1, 2, 3, 5}, pool_of({3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1})),
                  equal_elements({2, 2, 7}, {2, 2, 4}, pool_of({3}, {2}, {1}, {1}, {1}))});

}  // namespace
}  // namespace ipu::ops
