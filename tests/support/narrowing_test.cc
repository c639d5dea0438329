#include "support/narrowing.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

namespace ipu {
namespace {

template <typename To, typename From>
std::pair<int64_t, std::vector<To>> narrowed(const std::vector<From>& from, DType device) {
  std::vector<To> to(from.size());
  const int64_t lost =
      narrow(std::as_bytes(std::span(from)).data(), device, std::as_writable_bytes(std::span(to)).data(),
             static_cast<int64_t>(from.size()));
  return {lost, to};
}

TEST(Narrowing, says_which_types_stand_for_narrower_ones) {
  EXPECT_TRUE(narrows(DType::kI64, DType::kI32) && narrows(DType::kI64, DType::kU32));
  EXPECT_TRUE(narrows(DType::kF64, DType::kF32));
  EXPECT_FALSE(narrows(DType::kI32, DType::kI32) || narrows(DType::kF64, DType::kI32));
  EXPECT_FALSE(narrows(DType::kI64, DType::kI16) || narrows(DType::kF32, DType::kF16));
}

TEST(Narrowing, keeps_the_low_half_of_an_integer_and_says_when_that_is_another_number) {
  using I = std::vector<int32_t>;
  using U = std::vector<uint32_t>;
  const std::vector<int64_t> fit = {-2147483648, 0, 2147483647}, high = {7, 2147483648},
                             low = {-2147483649, 7};
  EXPECT_EQ((narrowed<int32_t>(fit, DType::kI32)),
            (std::pair<int64_t, I>{0, {-2147483647 - 1, 0, 2147483647}}));
  EXPECT_EQ((narrowed<int32_t>(high, DType::kI32)), (std::pair<int64_t, I>{kUnfit, {7, -2147483647 - 1}}));
  EXPECT_EQ((narrowed<int32_t>(low, DType::kI32)), (std::pair<int64_t, I>{kUnfit, {2147483647, 7}}));
  EXPECT_EQ((narrowed<uint32_t>(high, DType::kU32)), (std::pair<int64_t, U>{0, {7, 2147483648u}}));
  EXPECT_EQ((narrowed<uint32_t>(low, DType::kU32)), (std::pair<int64_t, U>{kUnfit, {2147483647u, 7}}));
  EXPECT_EQ(first_unfit(std::as_bytes(std::span(high)).data(), 2), 1);
  EXPECT_EQ(first_unfit(std::as_bytes(std::span(low)).data(), 2), 0);
}

TEST(Narrowing, counts_the_finite_numbers_that_become_infinite) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const std::vector<double> from = {1.5, 1e39, -1e39, std::numeric_limits<double>::infinity()};
  EXPECT_EQ((narrowed<float>(from, DType::kF32)),
            (std::pair<int64_t, std::vector<float>>{2, {1.5f, kInfinite, -kInfinite, kInfinite}}));
}

TEST(Narrowing, widens_with_the_sign_of_the_narrow_type_and_adds) {
  const std::vector<int32_t> from = {-1, 3};
  std::vector<int64_t> to = {10, 20};
  const auto widened = [&](DType device, bool add) {
    widen(std::as_bytes(std::span(from)).data(), device, std::as_writable_bytes(std::span(to)).data(), 2,
          add);
    return to;
  };
  EXPECT_EQ(widened(DType::kI32, true), (std::vector<int64_t>{9, 23}));
  EXPECT_EQ(widened(DType::kI32, false), (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(widened(DType::kU32, false), (std::vector<int64_t>{4294967295, 3}));
}

}  // namespace
}  // namespace ipu
