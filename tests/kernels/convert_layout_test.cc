// convert_layout there and back: the elements arrive where the layout says, padding is zero.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

Values transposed(const Values& v, int64_t rows, int64_t columns) {
  Values t(v.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      t[static_cast<size_t>(j * rows + i)] = v[static_cast<size_t>(i * columns + j)];
  return t;
}

TEST(ConvertLayout, matrices_go_to_panels_and_back) {
  for (auto [k, n] : std::vector<std::pair<int64_t, int64_t>>{{512, 10},
                                                              {784, 512},
                                                              {3, 5},
                                                              {64, 64},
                                                              {100, 70},
                                                              {1, 200},
                                                              {0, 4},
                                                              {4, 0},
                                                              {17, 63},
                                                              {1500, 1000}}) {
    const Values v = random_values(k * n, 1);
    const auto there = run_kernel("convert_layout", {f32({k, n})}, {v}, {packed({k, n})}, {});
    ASSERT_TRUE(there.accepted);
    EXPECT_TRUE(same_bits(there.results[0], v)) << k << "x" << n;
    for (float x : there.stored[0]) EXPECT_FALSE(std::isnan(x)) << "padding was not written";
    const auto back = run_kernel("convert_layout", {packed({k, n})}, {v}, {f32({k, n})}, {});
    ASSERT_TRUE(back.accepted);
    EXPECT_TRUE(same_bits(back.results[0], v)) << k << "x" << n;

    const Values w = transposed(v, k, n);
    const auto weight =
        run_kernel("convert_layout", {f32({n, k})}, {w}, {packed({k, n})}, {{"transpose", true}});
    ASSERT_TRUE(weight.accepted);
    EXPECT_TRUE(same_bits(weight.results[0], v)) << k << "x" << n;
    EXPECT_TRUE(same_bits(weight.stored[0], there.stored[0])) << k << "x" << n;
    const auto weight_back =
        run_kernel("convert_layout", {packed({k, n})}, {v}, {f32({n, k})}, {{"transpose", true}});
    ASSERT_TRUE(weight_back.accepted);
    EXPECT_TRUE(same_bits(weight_back.results[0], w)) << k << "x" << n;
  }
}

TEST(ConvertLayout, images_go_to_nhwc_and_back) {
  for (const Shape& shape :
       {Shape{2, 3, 5, 7}, Shape{1, 64, 9, 9}, Shape{3, 16, 11}, Shape{1, 1, 4, 4}, Shape{0, 3, 2, 2},
        Shape{64, 32, 32, 32}, Shape{3, 2, 37, 41}, Shape{2, 3, 96, 95}, Shape{2, 4, 64, 64},
        Shape{3, 5, 40, 41}, Shape{2, 0, 4, 4}, Shape{2, 3, 0, 4}}) {
    const Values v = random_values(element_count(shape), 1);
    const auto there = run_kernel("convert_layout", {f32(shape)}, {v}, {nhwc(shape)}, {});
    ASSERT_TRUE(there.accepted);
    EXPECT_TRUE(same_bits(there.results[0], v)) << ipu::to_string(shape);
    const auto back = run_kernel("convert_layout", {nhwc(shape)}, {v}, {f32(shape)}, {});
    ASSERT_TRUE(back.accepted);
    EXPECT_TRUE(same_bits(back.results[0], v)) << ipu::to_string(shape);
  }
}

TEST(ConvertLayout, refuses_shapes_that_do_not_fit) {
  EXPECT_FALSE(run_kernel("convert_layout", {f32({4, 6})}, {Values(24)}, {packed({6, 4})}, {}).accepted);
  EXPECT_FALSE(run_kernel("convert_layout", {f32({4, 6})}, {Values(24)}, {f32({4, 6})}, {}).accepted);
}

}  // namespace
}  // namespace ipu::kernels
