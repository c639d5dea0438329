// Pooling and its gradients against plain loops: strides, padding, dilation, ceil padding, divisors, NaN,
// ties.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

struct Case {
  int64_t batch, channels;
  std::vector<int64_t> size, kernel, strides, low, high, dilations, ceil;  // ceil may be empty: none
  bool count_include_pad = true;
  int64_t divisor = 0;

  Shape x() const {
    Shape s{batch, channels};
    s.insert(s.end(), size.begin(), size.end());
    return s;
  }
  Shape y() const {
    Shape s{batch, channels};
    for (size_t d = 0; d < size.size(); ++d)
      s.push_back((size[d] + low[d] + high[d] - dilations[d] * (kernel[d] - 1) - 1) / strides[d] + 1);
    return s;
  }
  Attributes attributes() const {
    return {{"kernel", kernel},
            {"strides", strides},
            {"padding_low", low},
            {"padding_high", high},
            {"dilations", dilations},
            {"ceil_padding", ceil},
            {"count_include_pad", count_include_pad},
            {"divisor", divisor}};
  }
  std::string text() const {
    return ipu::to_string(x()) + " window " + ipu::to_string(kernel) + " stride " + ipu::to_string(strides);
  }
};

const std::vector<Case> kCases = {
    {2, 6, {28, 28}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {0, 0}},
    {2, 17, {9, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 64, {7, 7}, {3, 2}, {1, 1}, {1, 0}, {1, 1}, {2, 1}, {0, 0}},
    {3, 5, {8, 8}, {3, 3}, {3, 3}, {1, 1}, {2, 2}, {1, 1}, {1, 1}},
    {3, 5, {8, 8}, {3, 3}, {3, 3}, {1, 1}, {2, 2}, {1, 1}, {1, 1}, false},
    {3, 5, {8, 8}, {3, 3}, {3, 3}, {1, 1}, {2, 2}, {1, 1}, {1, 1}, true, 7},
    {2, 4, {15}, {4}, {3}, {1}, {2}, {1}, {0}, false},
    {0, 4, {6, 6}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {0, 0}},
    {20, 64, {24, 24}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {}},
};

// Calls window(y index, x indices of the window in row-major order, divisor) for every output element.
template <typename F>
void for_each_window(const Case& c, F window) {
  const bool two = c.size.size() == 2;
  const Shape y = c.y();
  const int64_t h = two ? c.size[0] : 1, w = c.size.back(), oh = two ? y[2] : 1, ow = y.back();
  auto at = [&](const std::vector<int64_t>& v, int64_t fallback) { return two ? v[0] : fallback; };
  for (int64_t plane = 0; plane < c.batch * c.channels; ++plane)
    for (int64_t i = 0; i < oh; ++i)
      for (int64_t j = 0; j < ow; ++j) {
        std::vector<size_t> inside;
        int64_t counted = 0;
        for (int64_t ky = 0; ky < at(c.kernel, 1); ++ky)
          for (int64_t kx = 0; kx < c.kernel.back(); ++kx) {
            const int64_t r = i * at(c.strides, 1) - at(c.low, 0) + ky * at(c.dilations, 1);
            const int64_t s = j * c.strides.back() - c.low.back() + kx * c.dilations.back();
            const bool is_inside = r >= 0 && r < h && s >= 0 && s < w;
            if (is_inside) inside.push_back(static_cast<size_t>((plane * h + r) * w + s));
            if (c.count_include_pad ? r < h + at(c.high, 0) - (c.ceil.empty() ? 0 : at(c.ceil, 0)) &&
                                          s < w + c.high.back() - (c.ceil.empty() ? 0 : c.ceil.back())
                                    : is_inside)
              ++counted;
          }
        window(static_cast<size_t>((plane * oh + i) * ow + j), inside, c.divisor != 0 ? c.divisor : counted);
      }
}

void expect_equal(const Values& actual, const Values& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (std::isnan(expected[i]))
      ASSERT_TRUE(std::isnan(actual[i])) << what << " element " << i;
    else
      ASSERT_EQ(actual[i], expected[i]) << what << " element " << i;
}

// Small integers: many ties, exact sums.
Values ties(int64_t count, uint32_t seed) {
  Values v = random_values(count, seed);
  for (float& x : v) x = std::floor(x * 2);
  return v;
}

TEST(MaxPool, takes_the_maximum_and_sends_its_gradient_to_the_first_one) {
  for (const Case& c : kCases)
    for (bool with_nan : {false, true}) {
      Values x = ties(element_count(c.x()), 1);
      if (with_nan)
        for (size_t i = 0; i < x.size(); i += 7) x[i] = NAN;
      const Values dy = ties(element_count(c.y()), 2);
      Values y(dy.size()), dx(x.size(), 0.0f);
      for_each_window(c, [&](size_t out, const std::vector<size_t>& inside, int64_t) {
        float best = -INFINITY;
        size_t where = inside.empty() ? 0 : inside[0];
        for (size_t i : inside)
          if (x[i] > best || std::isnan(x[i])) {
            best = x[i];
            where = i;
          }
        y[out] = best;
        if (!inside.empty()) dx[where] += dy[out];
      });
      for (int mix = 0; mix < 4; ++mix) {
        const auto xs = mix & 1 ? nhwc(c.x()) : f32(c.x()), ys = mix & 2 ? nhwc(c.y()) : f32(c.y());
        const auto forward = run_kernel("max_pool", {xs}, {x}, {ys}, c.attributes());
        ASSERT_TRUE(forward.accepted) << c.text();
        expect_equal(forward.results[0], y, c.text());
        const auto backward = run_kernel("max_pool_gradient", {xs, ys, mix & 1 ? ys : f32(c.y())}, {x, y, dy},
                                         {mix & 2 ? nhwc(c.x()) : f32(c.x())}, c.attributes());
        ASSERT_TRUE(backward.accepted) << c.text();
        expect_equal(backward.results[0], dx, c.text() + " gradient");
      }
    }
}

TEST(AvgPool, divides_as_torch_and_spreads_its_gradient) {
  for (const Case& c : kCases) {
    if (c.dilations[0] != 1) continue;
    const Values x = random_values(element_count(c.x()), 1), dy = random_values(element_count(c.y()), 2);
    std::vector<double> y(dy.size()), dx(x.size());
    for_each_window(c, [&](size_t out, const std::vector<size_t>& inside, int64_t divisor) {
      for (size_t i : inside) {
        y[out] += double(x[i]) / static_cast<double>(divisor);
        dx[i] += double(dy[out]) / static_cast<double>(divisor);
      }
    });
    Attributes attributes = c.attributes();
    attributes.set("input_shape", c.x());
    for (int mix = 0; mix < 4; ++mix) {
      const auto xs = mix & 1 ? nhwc(c.x()) : f32(c.x()), ys = mix & 2 ? nhwc(c.y()) : f32(c.y());
      const auto forward = run_kernel("avg_pool", {xs}, {x}, {ys}, attributes);
      ASSERT_TRUE(forward.accepted) << c.text();
      expect_close(forward.results[0], y, 3e-7, c.text());
      const auto backward = run_kernel("avg_pool_gradient", {ys}, {dy}, {xs}, attributes);
      ASSERT_TRUE(backward.accepted) << c.text();
      expect_close(backward.results[0], dx, 3e-7, c.text() + " gradient");
    }
  }
}

TEST(Pooling, large_cases_are_cut_into_lanes) {
  const Case c{8, 64, {32, 32}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {0, 0}};
  const Values x = random_values(element_count(c.x()), 1), dy = random_values(element_count(c.y()), 2);
  EXPECT_GE(run_kernel("max_pool", {nhwc(c.x())}, {x}, {nhwc(c.y())}, c.attributes()).lanes, 2);
  EXPECT_GE(run_kernel("max_pool_gradient", {nhwc(c.x()), nhwc(c.y()), nhwc(c.y())}, {x, dy, dy},
                       {nhwc(c.x())}, c.attributes())
                .lanes,
            2);
}

TEST(Pooling, refuses_other_types) {
  const std::vector<TensorSpec> x = {TensorSpec::plain(DType::kI32, {1, 1, 4, 4})},
                                y = {TensorSpec::plain(DType::kI32, {1, 1, 2, 2})};
  const Attributes attributes{{"kernel", std::vector<int64_t>{2, 2}}};
  EXPECT_EQ(find_kernel("max_pool")->prepare({x, y, attributes}), nullptr);
}

}  // namespace
}  // namespace ipu::kernels
