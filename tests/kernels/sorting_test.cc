// Kernel "sort" on rows so long that they are split before they are sorted.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels {
namespace {

using kernel_tests::Tensor;

enum class Values { kReal, kFew, kEqual, kAscending, kNan };

void expect_sorted(Values kind, int64_t size, int64_t count, bool descending) {
  std::mt19937 random(3);
  Tensor x = Tensor::plain(DType::kF32, {2, size});
  x.randomize(random, -100.0, 100.0);
  auto* values = x.as<float>();
  for (int64_t i = 0; i < 2 * size; ++i) {
    if (kind == Values::kFew) values[i] = std::floor(values[i] / 30.0f);
    if (kind == Values::kEqual) values[i] = 1.5f;
    if (kind == Values::kAscending) values[i] = static_cast<float>(i);
    if (kind == Values::kNan && i % 3 == 0) values[i] = NAN;
  }
  Tensor sorted = Tensor::plain(DType::kF32, {2, count}), index = Tensor::plain(DType::kI32, {2, count});
  kernel_tests::run("sort", {&x}, {&sorted, &index}, {{"dim", int64_t{1}}, {"descending", descending}});
  for (int64_t row = 0; row < 2; ++row) {
    const float* from = values + row * size;
    std::vector<int32_t> want(static_cast<size_t>(size));
    std::iota(want.begin(), want.end(), 0);
    auto below = [](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    std::stable_sort(want.begin(), want.end(), [&](int32_t a, int32_t b) {
      return descending ? below(from[b], from[a]) : below(from[a], from[b]);
    });
    for (int64_t k = 0; k < count; ++k) {
      ASSERT_EQ(index.as<int32_t>()[row * count + k], want[static_cast<size_t>(k)]) << row << " " << k;
      ASSERT_EQ(std::memcmp(&sorted.as<float>()[row * count + k], from + want[static_cast<size_t>(k)], 4), 0);
    }
  }
}

TEST(Sort, LongRowsAreStableWhateverTheirValues) {
  for (Values kind : {Values::kReal, Values::kFew, Values::kEqual, Values::kAscending, Values::kNan})
    for (bool descending : {false, true}) expect_sorted(kind, 150'000, 150'000, descending);
}

TEST(Sort, TheFrontOfALongRowIsThatOfTheWholeRow) {
  for (Values kind : {Values::kReal, Values::kFew, Values::kEqual, Values::kAscending, Values::kNan})
    for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{40'000}, int64_t{99'999}})
      expect_sorted(kind, 100'000, count, true);
}

}  // namespace
}  // namespace ipu::kernels
