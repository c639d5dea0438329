// Convolution and its gradients against f64 loops: strides, asymmetric padding, dilation, groups, 1-d, every
// mix of layouts; weights handed over packed.
#include <gtest/gtest.h>

#include <tuple>

#include "kernels/isa.h"
#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

struct Case {
  int64_t batch, in, out, groups;
  std::vector<int64_t> size, kernel, strides, low, high, dilations;

  Shape x() const {
    Shape s{batch, in};
    s.insert(s.end(), size.begin(), size.end());
    return s;
  }
  Shape w() const {
    Shape s{out, in / groups};
    s.insert(s.end(), kernel.begin(), kernel.end());
    return s;
  }
  Shape y() const {
    Shape s{batch, out};
    for (size_t d = 0; d < size.size(); ++d)
      s.push_back((size[d] + low[d] + high[d] - dilations[d] * (kernel[d] - 1) - 1) / strides[d] + 1);
    return s;
  }
  Attributes attributes() const {
    return {{"strides", strides},
            {"padding_low", low},
            {"padding_high", high},
            {"dilations", dilations},
            {"groups", groups}};
  }
  std::string text() const {
    return ipu::to_string(x()) + " * " + ipu::to_string(w()) + " stride " + ipu::to_string(strides) +
           " pad " + ipu::to_string(low) + ipu::to_string(high) + " dilation " + ipu::to_string(dilations) +
           " groups " + std::to_string(groups);
  }
};

const std::vector<Case> kCases = {
    {2, 1, 6, 1, {28, 28}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},
    {3, 6, 16, 1, {14, 14}, {5, 5}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {1, 3, 20, 1, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 64, 64, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 70, 130, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {33, 40, 48, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 33, 10, 1, {7, 70}, {1, 3}, {1, 1}, {0, 0}, {0, 2}, {1, 1}},
    {2, 16, 24, 1, {9, 9}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
    {2, 64, 128, 1, {8, 8}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {1, 8, 12, 4, {10, 9}, {3, 2}, {2, 3}, {2, 0}, {1, 3}, {2, 1}},
    {2, 36, 36, 36, {12, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 20, 20, 20, {12, 11}, {3, 3}, {2, 2}, {0, 1}, {1, 0}, {1, 2}},
    {2, 4, 12, 4, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    // Depthwise: a kernel wider than the image, rows longer than a chunk, 1-d, taps that only meet padding.
    {3, 36, 36, 36, {5, 6}, {7, 9}, {1, 1}, {3, 4}, {3, 4}, {1, 1}},
    {1, 17, 17, 17, {3, 300}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 6, 6, 6, {40}, {5}, {1}, {8}, {0}, {2}},
    {2, 4, 0, 4, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 4, 4, 4, {5, 2}, {3, 3}, {1, 1}, {1, 0}, {1, 0}, {1, 1}},
    {2, 7, 21, 7, {6, 9}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}},
    {1, 40, 80, 40, {9, 9}, {5, 5}, {1, 1}, {2, 2}, {2, 2}, {1, 1}},
    {1, 80, 80, 80, {20, 20}, {3, 3}, {2, 1}, {1, 5}, {1, 5}, {1, 3}},
    {2, 5, 7, 1, {6, 6}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {2, 2}},
    {1, 4, 4, 1, {5, 5}, {2, 2}, {3, 3}, {0, 0}, {0, 0}, {1, 1}},
    {1, 600, 8, 1, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 521, 8, 1, {2, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {1, 3, 8, 1, {40, 40}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}},
    {1, 3, 130, 1, {26, 25}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {3, 10, 9, 1, {21}, {3}, {1}, {1}, {1}, {1}},
    {2, 6, 10, 2, {30}, {5}, {2}, {0}, {3}, {2}},
    {0, 3, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 4, 1, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 2, 3, 1, {2, 2}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, {1, 1}},
    // Blocks of images: one, two of different sizes, strides, dilation, groups, several pieces of a sum, taps that
    // only meet padding, 1-d.
    {5, 40, 70, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {19, 36, 20, 1, {6, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {9, 33, 10, 1, {7, 9}, {2, 3}, {3, 2}, {2, 1}, {0, 2}, {2, 1}},
    {6, 80, 12, 2, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {4, 600, 8, 1, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {4, 40, 66, 1, {2, 2}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, {1, 1}},
    {17, 35, 7, 1, {9}, {5}, {2}, {3}, {1}, {1}},
    // All pixels that meet a tap: whole panels, few images and pixels; strides, dilation, groups, several pieces of a
    // sum, parts of long channels, taps that only meet padding, 1-d.
    {1, 40, 64, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {3, 64, 128, 1, {5, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 128, 64, 2, {7, 9}, {2, 3}, {3, 2}, {2, 1}, {0, 2}, {2, 1}},
    {1, 256, 256, 1, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {1, 600, 64, 1, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 64, 64, 1, {2, 2}, {2, 2}, {1, 1}, {4, 4}, {4, 4}, {1, 1}},
    {1, 64, 64, 1, {30}, {5}, {2}, {3}, {1}, {1}},
};

// Calls term(x index, w index, y index) for every product of the convolution.
template <typename F>
void for_each_term(const Case& c, F term) {
  const bool two = c.size.size() == 2;
  const int64_t h = two ? c.size[0] : 1, w = c.size.back(), kh = two ? c.kernel[0] : 1, kw = c.kernel.back();
  const Shape y = c.y();
  const int64_t oh = two ? y[2] : 1, ow = y.back(), sy = two ? c.strides[0] : 1, sx = c.strides.back();
  const int64_t py = two ? c.low[0] : 0, px = c.low.back(), dy = two ? c.dilations[0] : 1,
                dx = c.dilations.back();
  const int64_t in = c.in / c.groups, out = c.out / c.groups;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j)
          for (int64_t q = 0; q < in; ++q)
            for (int64_t ky = 0; ky < kh; ++ky)
              for (int64_t kx = 0; kx < kw; ++kx) {
                const int64_t r = i * sy - py + ky * dy, s = j * sx - px + kx * dx;
                if (r < 0 || r >= h || s < 0 || s >= w) continue;
                term(((b * c.in + o / out * in + q) * h + r) * w + s, ((o * in + q) * kh + ky) * kw + kx,
                     ((b * c.out + o) * oh + i) * ow + j);
              }
}

constexpr double kBound = 6e-7;

TEST(Conv, forward_matches_f64_in_every_mix_of_layouts) {
  for (const Case& c : kCases) {
    const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2),
                 bias = random_values(c.out, 3);
    std::vector<double> expected(static_cast<size_t>(element_count(c.y())));
    for_each_term(c,
                  [&](int64_t xi, int64_t wi, int64_t yi) { expected[yi] += double(x[xi]) * double(w[wi]); });
    const int64_t pixels = c.batch * c.out == 0 ? 1 : element_count(c.y()) / (c.batch * c.out);
    auto with_bias = expected;
    for (size_t i = 0; i < expected.size(); ++i)
      with_bias[i] =
          std::max(0.0, expected[i] + bias[i / static_cast<size_t>(pixels) % static_cast<size_t>(c.out)]);
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const auto xs = x_last ? nhwc(c.x()) : f32(c.x()), ys = y_last ? nhwc(c.y()) : f32(c.y());
        const auto run = run_kernel("conv", {xs, f32(c.w()), f32({})}, {x, w, {}}, {ys}, c.attributes());
        ASSERT_TRUE(run.accepted) << c.text();
        expect_close(run.results[0], expected, kBound, c.text());
        Attributes relu = c.attributes();
        relu.set("activation", "relu");
        const auto biased = run_kernel("conv", {xs, f32(c.w()), f32({c.out})}, {x, w, bias}, {ys}, relu);
        ASSERT_TRUE(biased.accepted);
        expect_close(biased.results[0], with_bias, kBound, c.text() + " bias, relu");
      }
  }
}

// Scale, bias, addend and activation, each alone and together, of every case: the bits of the convolution followed by
// elementwise loops.
TEST(FusedConv, has_the_bits_of_a_convolution_and_what_follows_it) {
  for (const Case& c : kCases) {
    const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2),
                 scale = random_values(c.out, 3), bias = random_values(c.out, 4),
                 addend = random_values(element_count(c.y()), 5);
    const auto channels = static_cast<size_t>(c.out);
    const size_t pixels = addend.empty() ? 1 : addend.size() / static_cast<size_t>(c.batch) / channels;
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const auto xs = x_last ? nhwc(c.x()) : f32(c.x()), ys = y_last ? nhwc(c.y()) : f32(c.y());
        const auto sums = run_kernel("conv", {xs, f32(c.w())}, {x, w}, {ys}, c.attributes());
        ASSERT_TRUE(sums.accepted) << c.text();
        for (int kinds = 0; kinds < 16; ++kinds) {
          const bool scales = kinds & 1, adds = kinds & 2, sums_up = kinds & 4, rectifies = kinds & 8;
          if (sums_up && !y_last) continue;  // addends lie channels last
          Values expected = sums.results[0];
          for (size_t i = 0; i < expected.size(); ++i) {
            const size_t channel = i / pixels % channels;
            if (scales) expected[i] *= scale[channel];
            if (adds) expected[i] += bias[channel];
            if (sums_up) expected[i] += addend[i];
            if (rectifies && expected[i] <= 0) expected[i] = 0;
          }
          Attributes attributes = c.attributes();
          if (rectifies) attributes.set("activation", "relu");
          const auto run = run_kernel(
              "fused_conv",
              {xs, f32(c.w()), scales ? f32({c.out}) : f32({}), adds ? f32({c.out}) : f32({}),
               sums_up ? ys : f32({})},
              {x, w, scales ? scale : Values(), adds ? bias : Values(), sums_up ? addend : Values()}, {ys},
              attributes);
          ASSERT_TRUE(run.accepted) << c.text();
          EXPECT_TRUE(same_bits(run.results[0], expected)) << c.text() << " kinds " << kinds;
        }
      }
  }
}

// The loops that Highway compiled: ends, and tiles of all pixels that meet a tap.
TEST(FusedConv, bits_do_not_depend_on_the_instruction_set) {
  for (const Case& c : {Case{1, 96, 64, 1, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                        Case{5, 40, 70, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}}) {
    const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2),
                 row = random_values(c.out, 3), addend = random_values(element_count(c.y()), 4);
    Attributes attributes = c.attributes();
    attributes.set("activation", "relu");
    const Isa best = active_isa();
    Values bits;
    for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > instruction_set()) continue;
      set_active_isa(isa);
      const auto run =
          run_kernel("fused_conv", {nhwc(c.x()), f32(c.w()), f32({c.out}), f32({c.out}), nhwc(c.y())},
                     {x, w, row, row, addend}, {nhwc(c.y())}, attributes);
      set_active_isa(best);
      ASSERT_TRUE(run.accepted);
      if (bits.empty()) bits = run.results[0];
      EXPECT_TRUE(same_bits(run.results[0], bits)) << c.text() << " on " << to_string(isa);
    }
  }
}

TEST(FusedConv, gelu_is_that_of_the_sum) {
  const Case& c = kCases[3];
  const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2);
  const auto sums = run_kernel("conv", {nhwc(c.x()), f32(c.w())}, {x, w}, {nhwc(c.y())}, c.attributes());
  std::vector<double> expected;
  for (const float s : sums.results[0]) expected.push_back(0.5 * s * (1 + std::erf(s * std::sqrt(0.5))));
  Attributes attributes = c.attributes();
  attributes.set("activation", "gelu");
  const auto run = run_kernel("fused_conv", {nhwc(c.x()), f32(c.w())}, {x, w}, {nhwc(c.y())}, attributes);
  ASSERT_TRUE(run.accepted);
  expect_close(run.results[0], expected, kBound, c.text());
}

TEST(FusedConv, refuses_ends_that_do_not_fit) {
  const Case& c = kCases[3];
  const auto xs = nhwc(c.x()), ys = nhwc(c.y());
  auto is_accepted = [&](const TensorSpec& scale, const TensorSpec& bias, const TensorSpec& addend,
                         const std::string& activation) {
    Attributes attributes = c.attributes();
    attributes.set("activation", activation);
    return find_kernel("fused_conv")
               ->prepare({std::vector<TensorSpec>{xs, f32(c.w()), scale, bias, addend},
                          std::vector<TensorSpec>{ys}, attributes}) != nullptr;
  };
  const TensorSpec none = f32({}), row = f32({c.out});
  EXPECT_TRUE(is_accepted(row, row, ys, "relu"));
  EXPECT_FALSE(is_accepted(f32({c.out + 1}), none, none, "relu"));
  EXPECT_FALSE(is_accepted(none, f32({1, c.out, 1, 1}), none, "relu"));
  EXPECT_FALSE(is_accepted(none, none, f32(c.y()), "relu"));
  EXPECT_FALSE(is_accepted(none, none, nhwc({c.batch, c.out, 7, 8}), "relu"));
  EXPECT_FALSE(is_accepted(row, as_half(row), none, "relu"));
  EXPECT_FALSE(is_accepted(none, none, none, "tanh"));
}

TEST(Conv, input_gradient_matches_f64_in_every_mix_of_layouts) {
  for (const Case& c : kCases) {
    const Values dy = random_values(element_count(c.y()), 1), w = random_values(element_count(c.w()), 2);
    std::vector<double> expected(static_cast<size_t>(element_count(c.x())));
    for_each_term(
        c, [&](int64_t xi, int64_t wi, int64_t yi) { expected[xi] += double(dy[yi]) * double(w[wi]); });
    Attributes attributes = c.attributes();
    attributes.set("input_shape", c.x());
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const auto run = run_kernel("conv_input_gradient", {y_last ? nhwc(c.y()) : f32(c.y()), f32(c.w())},
                                    {dy, w}, {x_last ? nhwc(c.x()) : f32(c.x())}, attributes);
        ASSERT_TRUE(run.accepted) << c.text();
        expect_close(run.results[0], expected, kBound, c.text());
      }
  }
}

TEST(Conv, weight_gradient_matches_f64_in_every_mix_of_layouts) {
  for (const Case& c : kCases) {
    const Values dy = random_values(element_count(c.y()), 1), x = random_values(element_count(c.x()), 2);
    std::vector<double> expected(static_cast<size_t>(element_count(c.w())));
    for_each_term(
        c, [&](int64_t xi, int64_t wi, int64_t yi) { expected[wi] += double(dy[yi]) * double(x[xi]); });
    Attributes attributes = c.attributes();
    attributes.set("kernel_shape", c.w());
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const auto run = run_kernel("conv_weight_gradient",
                                    {x_last ? nhwc(c.x()) : f32(c.x()), y_last ? nhwc(c.y()) : f32(c.y())},
                                    {x, dy}, {f32(c.w())}, attributes);
        ASSERT_TRUE(run.accepted) << c.text();
        expect_close(run.results[0], expected, kBound, c.text());
      }
  }
}

TEST(Conv, depthwise_weight_gradients_have_the_same_bits_on_every_instruction_set) {
  for (const Case& c : {Case{3, 36, 36, 36, {9, 10}, {7, 7}, {1, 1}, {3, 3}, {3, 3}, {1, 1}},
                        Case{1, 17, 17, 17, {3, 300}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}}}) {
    const Values dy = random_values(element_count(c.y()), 1), x = random_values(element_count(c.x()), 2);
    Attributes attributes = c.attributes();
    attributes.set("kernel_shape", c.w());
    const Isa best = active_isa();
    Values bits;
    for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > instruction_set()) continue;
      set_active_isa(isa);
      const auto run =
          run_kernel("conv_weight_gradient", {nhwc(c.x()), f32(c.y())}, {x, dy}, {f32(c.w())}, attributes);
      set_active_isa(best);
      ASSERT_TRUE(run.accepted);
      if (bits.empty()) bits = run.results[0];
      EXPECT_TRUE(same_bits(run.results[0], bits)) << c.text() << " on " << to_string(isa);
    }
  }
}

TEST(Conv, large_cases_are_cut_into_lanes_by_rows_by_channels_and_by_images) {
  const Case by_rows{1, 64, 64, 1, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Case by_channels{1, 256, 320, 1, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Case by_images{16, 128, 130, 1, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  for (const Case& c : {by_rows, by_channels, by_images}) {
    const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2);
    std::vector<double> expected(static_cast<size_t>(element_count(c.y())));
    for_each_term(c,
                  [&](int64_t xi, int64_t wi, int64_t yi) { expected[yi] += double(x[xi]) * double(w[wi]); });
    Values bits;
    for (bool x_last : {false, true})
      for (bool y_last : {false, true}) {
        const auto run = run_kernel("conv", {x_last ? nhwc(c.x()) : f32(c.x()), f32(c.w())}, {x, w},
                                    {y_last ? nhwc(c.y()) : f32(c.y())}, c.attributes());
        ASSERT_TRUE(run.accepted);
        EXPECT_GE(run.lanes, 2);
        expect_close(run.results[0], expected, kBound, c.text());
        if (bits.empty()) bits = run.results[0];
        EXPECT_TRUE(same_bits(bits, run.results[0])) << "layouts changed bits";
      }
  }
}

// 16 channels: neighbouring pixels for every batch; 40: blocks of images from four images on; with 64 channels of
// 8 x 8 pixels, all pixels of a tap for fewer images.
TEST(Conv, bits_of_an_image_do_not_depend_on_the_batch) {
  for (const auto& [channels, outputs, extent] : {std::tuple{16, 32, 12}, {40, 32, 12}, {96, 64, 8}}) {
    Case c{1, channels, outputs, 1, {extent, extent}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const int64_t pixels = extent * extent;
    const Values x = random_values(41 * channels * pixels, 1), w = random_values(element_count(c.w()), 2);
    const auto one =
        run_kernel("conv", {nhwc(c.x()), f32(c.w())}, {Values(x.begin(), x.begin() + channels * pixels), w},
                   {nhwc(c.y())}, c.attributes());
    c.batch = 41;
    const auto many = run_kernel("conv", {nhwc(c.x()), f32(c.w())}, {x, w}, {nhwc(c.y())}, c.attributes());
    ASSERT_TRUE(one.accepted && many.accepted);
    EXPECT_GE(many.lanes, 2);
    EXPECT_TRUE(same_bits(one.results[0],
                          Values(many.results[0].begin(), many.results[0].begin() + outputs * pixels)));
  }
}

TEST(Conv, takes_a_weight_packed_by_convert_layout) {
  for (const Case& c : kCases) {
    if (c.groups != 1) continue;
    const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2);
    int64_t taps = 1;
    for (int64_t k : c.kernel) taps *= k;
    const TensorSpec panels = packed({taps * c.in, c.out});
    const auto weight = run_kernel("convert_layout", {f32(c.w())}, {w}, {panels}, {{"conv_weight", true}});
    ASSERT_TRUE(weight.accepted);
    Attributes of_panels = c.attributes();
    of_panels.set("kernel_shape", c.w());
    for (const bool half : {false, true}) {
      auto typed = [half](const TensorSpec& spec) { return half ? as_half(spec) : spec; };
      const auto plain = run_kernel("conv", {typed(nhwc(c.x())), typed(f32(c.w()))}, {x, w},
                                    {typed(nhwc(c.y()))}, c.attributes());
      const auto run = run_kernel("conv", {typed(nhwc(c.x())), typed(panels)}, {x, weight.results[0]},
                                  {typed(nhwc(c.y()))}, of_panels);
      ASSERT_TRUE(run.accepted) << c.text();
      EXPECT_TRUE(same_bits(run.results[0], plain.results[0])) << c.text() << (half ? " f16" : "");
    }
    const auto back =
        run_kernel("convert_layout", {panels}, {weight.results[0]}, {f32(c.w())}, {{"conv_weight", true}});
    ASSERT_TRUE(back.accepted);
    EXPECT_TRUE(same_bits(back.results[0], w)) << c.text();
  }
}

// Panels [taps * in, out] say the same as the plain weight, in both directions.
TEST(Conv, gradients_with_panels_have_the_bits_of_plain_ones) {
  for (const Case& c : kCases) {
    if (c.groups != 1) continue;
    const Values x = random_values(element_count(c.x()), 1), w = random_values(element_count(c.w()), 2),
                 dy = random_values(element_count(c.y()), 3);
    int64_t taps = 1;
    for (int64_t k : c.kernel) taps *= k;
    const TensorSpec panels = packed({taps * c.in, c.out});
    auto convert = [](const TensorSpec& from, const Values& values, const TensorSpec& to) {
      return run_kernel("convert_layout", {from}, {values}, {to}, {{"conv_weight", true}}).results[0];
    };
    Attributes attributes = c.attributes();
    attributes.set("kernel_shape", c.w());
    for (bool last : {false, true}) {
      const auto xs = last ? nhwc(c.x()) : f32(c.x()), ys = last ? nhwc(c.y()) : f32(c.y());
      const auto dw = run_kernel("conv_weight_gradient", {xs, ys}, {x, dy}, {f32(c.w())}, attributes);
      const auto dp = run_kernel("conv_weight_gradient", {xs, ys}, {x, dy}, {panels}, attributes);
      ASSERT_TRUE(dw.accepted && dp.accepted) << c.text();
      EXPECT_TRUE(same_bits(dp.results[0], convert(f32(c.w()), dw.results[0], panels))) << c.text();
      const auto dx = run_kernel("conv_input_gradient", {ys, f32(c.w())}, {dy, w}, {xs}, attributes);
      const auto of_panels = run_kernel("conv_input_gradient", {ys, panels},
                                        {dy, convert(f32(c.w()), w, panels)}, {xs}, attributes);
      ASSERT_TRUE(dx.accepted && of_panels.accepted) << c.text();
      EXPECT_TRUE(same_bits(of_panels.results[0], dx.results[0])) << c.text();
    }
  }
}

TEST(Conv, refuses_shapes_that_do_not_fit) {
  EXPECT_FALSE(run_kernel("conv", {f32({1, 3, 5, 5}), f32({4, 2, 3, 3})}, {Values(75), Values(72)},
                          {f32({1, 4, 3, 3})}, {})
                   .accepted);
  EXPECT_FALSE(run_kernel("conv", {f32({1, 3, 5, 5}), packed({27, 4})}, {Values(75), Values(108)},
                          {f32({1, 4, 3, 3})}, {})
                   .accepted);
  // Panels of another kernel than the attribute's.
  const Attributes other{{"kernel_shape", Shape{4, 3, 3, 2}}};
  EXPECT_FALSE(run_kernel("conv_input_gradient", {f32({1, 4, 3, 3}), packed({27, 4})},
                          {Values(36), Values(108)}, {f32({1, 3, 5, 5})}, other)
                   .accepted);
  EXPECT_FALSE(run_kernel("conv_weight_gradient", {f32({1, 3, 5, 5}), f32({1, 4, 3, 3})},
                          {Values(75), Values(36)}, {packed({27, 4})}, other)
                   .accepted);
}

}  // namespace
}  // namespace ipu::kernels
