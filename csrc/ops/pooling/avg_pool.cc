// avg_pool and its gradient: 1-d and 2-d. The divisor of a window is fixed, or the number of its elements
// inside the input, or inside the padded input. Padding that only ceil_mode adds (ceil_padding, at the end)
// never counts.
#include <fmt/core.h>

#include "ops/convolution/window.h"
#include "ops/definition/sample_types.h"
#include "ops/pooling/pool_support.h"

namespace ipu::ops {
namespace {

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

ir::Type avg_pool_type(const InferContext& c, const ir::Type& x) {
  if (x.shape.size() < 3 || x.shape.size() > 4) {
    shape_error(fmt::format("x {} must be [N,C,L] or [N,C,H,W]", to_string(x.shape)));
  }
  const size_t rank = x.shape.size() - 2;
  const Window window = read_window(c, per_dimension(c, "kernel", rank, 1));
  if (!c.attributes.integers("ceil_padding").empty()) per_dimension(c, "ceil_padding", rank, 0);
  if (c.attributes.integer("divisor") < 0) attribute_error("divisor must not be negative");
  ir::Type y{x.dtype, {x.shape[0], x.shape[1]}, x.layout};
  const Shape sizes = output_sizes(window, spatial(x.shape));
  // The mean of no elements is none.
  if (!c.attributes.boolean("count_include_pad") && c.attributes.integer("divisor") == 0)
    require_input_in_windows(window, spatial(x.shape), sizes);
  y.shape.insert(y.shape.end(), sizes.begin(), sizes.end());
  return y;
}

double divisor_at(const Window& window, const Attributes& attributes, const Shape& in,
                  const std::vector<int64_t>& at) {
  if (const int64_t fixed = attributes.integer("divisor"); fixed != 0) return static_cast<double>(fixed);
  const bool padding_counts = attributes.boolean("count_include_pad");
  const std::vector<int64_t>& ceil_padding = attributes.integers("ceil_padding");
  double count = 1.0;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t start = at[d] * window.strides[d] - window.padding_low[d];
    const int64_t extra = ceil_padding.empty() ? 0 : ceil_padding[d];
    const int64_t end = padding_counts ? in[d] + window.padding_high[d] - extra : in[d];
    const int64_t from = padding_counts ? start : std::max<int64_t>(start, 0);
    count *= static_cast<double>(std::min(start + window.kernel[d], end) - from);
  }
  return count;
}

// Calls visit(pooled element, input element, divisor) for each element of each window.
template <typename Visit>
void for_each_share(const Shape& x, const Shape& y, const Attributes& attributes, Visit visit) {
  const Window window = read_window(attributes, attributes.integers("kernel"));
  const Shape in = spatial(x), out = spatial(y);
  const int64_t in_size = element_count(in), out_size = element_count(out);
  for_each_position(out, [&](int64_t position, const std::vector<int64_t>& at) {
    const double divisor = divisor_at(window, attributes, in, at);
    for_each_tap(window, in, at, [&](int64_t, int64_t offset) {
      for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
        visit(plane * out_size + position, plane * in_size + offset, divisor);
      }
    });
  });
}

Attributes pool_attributes(const Attributes& attributes) {
  Attributes result = window_attributes(attributes);
  for (const char* name : {"count_include_pad", "divisor", "ceil_padding"})
    result.set(name, *attributes.find(name));
  return result;
}

Attributes pool_of(Shape kernel, Shape strides, Shape low, Shape high) {
  return {{"kernel", kernel}, {"strides", strides}, {"padding_low", low}, {"padding_high", high}};
}

Attributes with(Attributes attributes, std::string_view name, Attribute value) {
  attributes.set(name, std::move(value));
  return attributes;
}

OpDefBuilder pool_op(std::string name) {
  OpDefBuilder builder = define_op(std::move(name), "pooling");
  builder.attribute("kernel")
      .attribute("strides")
      .attribute("padding_low")
      .attribute("padding_high")
      .attribute("count_include_pad", true)
      .attribute("divisor", int64_t{0})
      .attribute("ceil_padding", std::vector<int64_t>{})
      .traits(kPooling)
      .work([](const ir::Op& op) {
        const ir::Type &from = op.operand(0)->type(), &to = op.result()->type();
        return window_work(op, from.elements() < to.elements() ? from : to, "Pool");
      });
  return builder;
}

const OpRegistration avg_pool =
    pool_op("avg_pool")
        .doc(
            "Mean of each window over the spatial dimensions of x [N, C, L] or [N, C, H, W]; divisor 0 "
            "counts elements, "
            "those of the padding if count_include_pad.")
        .operand("x", kAnyFloat)
        .result("y")
        .batch(sample_batch)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{avg_pool_type(c, c.operand(0))}; })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("avg_pool_gradient", {g.upstream()},
                        with(pool_attributes(g.attributes()), "input_shape", g.operand_type(0).shape)));
        })
        .reference([](ReferenceCall& call) {
          const std::vector<double>& x = call.operand(0).values;
          std::vector<double>& y = call.result().values;
          for_each_share(
              call.operand(0).type.shape, call.result().type.shape, call.attributes,
              [&](int64_t pooled, int64_t element, double divisor) { y[pooled] += x[element] / divisor; });
        })
        .samples(
            {{{f32({2, 3, 4, 6})}, pool_of({2, 3}, {2, 3}, {0, 0}, {0, 0})},
             {{f32({1, 2, 5, 5})}, pool_of({3, 3}, {2, 1}, {1, 1}, {1, 1})},
             {{f32({1, 2, 5, 5})}, with(pool_of({3, 3}, {2, 1}, {1, 1}, {1, 1}), "count_include_pad", false)},
             {{f32({1, 1, 4, 4})}, with(pool_of({2, 2}, {2, 2}, {1, 0}, {1, 0}), "divisor", int64_t{3})},
             {{f32({2, 2, 6})}, with(pool_of({3}, {2}, {1}, {2}), "ceil_padding", Shape{1})}});

const OpRegistration avg_pool_gradient =
    pool_op("avg_pool_gradient")
        .doc("Gradient of avg_pool for x, whose shape is input_shape.")
        .operand("dy", kAnyFloat)
        .attribute("input_shape")
        .result("dx")
        .infer([](const InferContext& c) {
          const ir::Type x{c.operand(0).dtype, c.attributes.integers("input_shape"), c.operand(0).layout};
          const ir::Type y = avg_pool_type(c, x);
          if (y.shape != c.operand(0).shape) {
            shape_error(fmt::format("an input of {} is pooled to {}, not to dy {}", to_string(x.shape),
                                    to_string(y.shape), to_string(c.operand(0).shape)));
          }
          return std::vector<ir::Type>{x};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("avg_pool", {g.upstream()}, pool_attributes(g.attributes())));
        })
        .reference([](ReferenceCall& call) {
          const std::vector<double>& dy = call.operand(0).values;
          std::vector<double>& dx = call.result().values;
          for_each_share(
              call.result().type.shape, call.operand(0).type.shape, call.attributes,
              [&](int64_t pooled, int64_t element, double divisor) { dx[element] += dy[pooled] / divisor; });
        })
        .samples({{{f32({2, 3, 2, 2})},
                   with(pool_of({2, 3}, {2, 3}, {0, 0}, {0, 0}), "input_shape", Shape{2, 3, 4, 6})},
                  {{f32({1, 2, 3, 5})},
                   with(with(pool_of({3, 3}, {2, 1}, {1, 1}, {1, 1}), "count_include_pad", false),
                        "input_shape", Shape{1, 2, 5, 5})},
                  {{f32({2, 2, 4})},
                   with(with(pool_of({3}, {2}, {1}, {2}), "ceil_padding", Shape{1}), "input_shape",
                        Shape{2, 2, 6})}});

}  // namespace
}  // namespace ipu::ops
