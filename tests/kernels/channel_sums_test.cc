// Sums over channels in every layout and type, against f64; the same bits for all of them.
#include <span>

#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

Shape statistic_of(const Shape& x) {
  Shape shape(x.size(), 1);
  shape[1] = x[1];
  return shape;
}

struct Moments {
  std::vector<double> mean, variance;
};
Moments expected_moments(const Shape& shape, const Values& x) {
  const int64_t channels = shape[1], pixels = element_count(std::span(shape).subspan(2));
  const int64_t count = shape[0] * pixels;
  Moments moments{std::vector<double>(static_cast<size_t>(channels)),
                  std::vector<double>(static_cast<size_t>(channels))};
  auto for_each = [&](auto visit) {
    for (size_t i = 0; i < x.size(); ++i)
      visit(i / static_cast<size_t>(pixels) % static_cast<size_t>(channels), static_cast<double>(x[i]));
  };
  for_each([&](size_t c, double v) { moments.mean[c] += v / static_cast<double>(count); });
  for_each([&](size_t c, double v) {
    moments.variance[c] += (v - moments.mean[c]) * (v - moments.mean[c]) / static_cast<double>(count);
  });
  return moments;
}

// Images larger and smaller than a block of pixels, channels beyond whole vectors and in several lanes.
const std::vector<Shape> kShapes{{3, 5, 9, 11}, {32, 70, 4, 4}, {1, 64, 40, 33},
                                 {200, 33},     {7, 130, 25},   {1, 1, 1, 1}};

TEST(ChannelMoments, match_f64_with_the_same_bits_in_every_layout) {
  for (const Shape& shape : kShapes) {
    Values x = random_values(element_count(shape), 1);
    for (float& v : x) v += 100.0f;  // far from zero: squares alone would lose the variance
    const Moments expected = expected_moments(shape, x);
    const TensorSpec statistic = f32(statistic_of(shape));
    const auto plain = run_kernel("channel_moments", {f32(shape)}, {x}, {statistic, statistic}, {});
    ASSERT_TRUE(plain.accepted);
    for (size_t c = 0; c < expected.mean.size(); ++c) {
      // A block's mean comes from a chain of 64 additions: some ulps of values of this size.
      EXPECT_NEAR(plain.results[0][c], expected.mean[c], 4e-7 * (1.0 + std::abs(expected.mean[c])));
      EXPECT_NEAR(plain.results[1][c], expected.variance[c], 2e-6 + 2e-5 * expected.variance[c]);
    }
    if (shape.size() == 2) continue;
    const auto last = run_kernel("channel_moments", {nhwc(shape)}, {x}, {statistic, statistic}, {});
    ASSERT_TRUE(last.accepted);
    EXPECT_TRUE(same_bits(plain.results[0], last.results[0]) && same_bits(plain.results[1], last.results[1]));
  }
}

TEST(ChannelMoments, of_halves_are_those_of_their_values) {
  for (const Shape& shape : kShapes) {
    Values x = random_values(element_count(shape), 2);
    for (float& v : x) v = half_to_float(float_to_half(v));
    const TensorSpec statistic = f32(statistic_of(shape));
    const auto wide = run_kernel("channel_moments", {f32(shape)}, {x}, {statistic, statistic}, {});
    for (bool is_last : {false, true}) {
      TensorSpec half = is_last && shape.size() > 2 ? nhwc(shape) : f32(shape);
      half.dtype = DType::kF16;
      const auto run = run_kernel("channel_moments", {half}, {x}, {statistic, statistic}, {});
      ASSERT_TRUE(run.accepted && wide.accepted);
      EXPECT_TRUE(same_bits(run.results[0], wide.results[0]) && same_bits(run.results[1], wide.results[1]));
    }
  }
}

TEST(ChannelMoments, many_channels_are_cut_into_lanes) {
  const Shape shape{16, 256, 8, 8};
  const auto run = run_kernel("channel_moments", {nhwc(shape)}, {random_values(element_count(shape), 3)},
                              {f32(statistic_of(shape)), f32(statistic_of(shape))}, {});
  ASSERT_TRUE(run.accepted);
  EXPECT_GE(run.lanes, 2);
}

TEST(ChannelMoments, of_nothing_are_not_numbers) {
  const Shape shape{0, 3, 2, 2};
  const auto run = run_kernel("channel_moments", {f32(shape)}, {Values()},
                              {f32(statistic_of(shape)), f32(statistic_of(shape))}, {});
  ASSERT_TRUE(run.accepted);
  for (int i : {0, 1})
    for (float v : run.results[static_cast<size_t>(i)]) EXPECT_TRUE(std::isnan(v));
}

TEST(ChannelGradientSums, match_f64_with_the_same_bits_in_every_mix_of_layouts) {
  for (const Shape& shape : kShapes) {
    const Values x = random_values(element_count(shape), 1), dy = random_values(element_count(shape), 2),
                 mean = random_values(shape[1], 3), rstd = random_values(shape[1], 4);
    const int64_t pixels = element_count(std::span(shape).subspan(2));
    std::vector<double> sum(mean.size()), product(mean.size()), size(mean.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i / static_cast<size_t>(pixels) % mean.size();
      sum[c] += dy[i];
      const double term = double(dy[i]) * (double(x[i]) - double(mean[c])) * double(rstd[c]);
      product[c] += term;
      size[c] += std::abs(term) + std::abs(dy[i]);
    }
    const TensorSpec statistic = f32(statistic_of(shape));
    std::vector<Values> bits;
    for (bool x_last : {false, true})
      for (bool dy_last : {false, true}) {
        if (shape.size() == 2 && (x_last || dy_last)) continue;
        const auto run = run_kernel(
            "channel_gradient_sums",
            {dy_last ? nhwc(shape) : f32(shape), x_last ? nhwc(shape) : f32(shape), statistic, statistic},
            {dy, x, mean, rstd}, {statistic, statistic}, {});
        ASSERT_TRUE(run.accepted);
        if (bits.empty()) bits = run.results;
        for (size_t c = 0; c < sum.size(); ++c) {
          EXPECT_NEAR(run.results[0][c], sum[c], 1e-6 * size[c]);
          EXPECT_NEAR(run.results[1][c], product[c], 1e-6 * size[c]);
        }
        EXPECT_TRUE(same_bits(bits[0], run.results[0]) && same_bits(bits[1], run.results[1]));
      }
  }
}

TEST(ChannelGradientSums, refuses_tensors_of_two_shapes) {
  const TensorSpec statistic = f32({1, 3, 1});
  EXPECT_FALSE(run_kernel("channel_gradient_sums", {f32({2, 3, 5}), f32({2, 3, 4}), statistic, statistic},
                          {Values(30), Values(24), Values(3), Values(3)}, {statistic, statistic}, {})
                   .accepted);
}

TEST(ChannelMoments, refuses_results_of_other_shapes) {
  EXPECT_FALSE(
      run_kernel("channel_moments", {f32({2, 3, 4})}, {Values(24)}, {f32({3}), f32({1, 3, 1})}, {}).accepted);
}

}  // namespace
}  // namespace ipu::kernels
