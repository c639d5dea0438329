// Rounding at random, number by number: which neighbours, and how many of the 2^32 random words lead to each.
#include "kernels/random/stochastic_half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "support/half.h"

namespace ipu::kernels {
namespace {

constexpr uint32_t kLast = 0xffffffffu;

float largest() { return half_to_float(0x7bff); }

// The half that follows in direction of larger magnitude; 65536 stands for infinity.
float next_half(uint16_t half) {
  return half == 0x7bff ? 65536.0f : half_to_float(static_cast<uint16_t>(half + 1));
}

TEST(StochasticHalf, HalvesStayThemselves) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(stochastic_half(value, 0))));
      EXPECT_TRUE(std::isnan(half_to_float(stochastic_half(value, kLast))));
      continue;
    }
    ASSERT_EQ(stochastic_half(value, 0), half);
    ASSERT_EQ(stochastic_half(value, kLast), half);
  }
}

// Down for all words from the share of the distance on, up for all below.
TEST(StochasticHalf, TheDistanceIsTheProbability) {
  std::mt19937 random(5);
  for (uint16_t half = 0; half < 0x7c00; half = static_cast<uint16_t>(half + 1 + random() % 7)) {
    const double low = half_to_float(half), high = next_half(half);
    for (int i = 0; i < 4; ++i) {
      const auto value =
          static_cast<float>(low + (high - low) * std::uniform_real_distribution<double>(0, 1)(random));
      if (value <= low || value >= high) continue;
      const double words = (value - low) / (high - low) * 0x1p32;  // exact in f64
      const auto whole = static_cast<uint64_t>(words);
      for (const float sign : {1.0f, -1.0f}) {
        const auto up = static_cast<uint16_t>(half + 1), bit = static_cast<uint16_t>(sign < 0 ? 0x8000 : 0);
        ASSERT_EQ(stochastic_half(sign * value, static_cast<uint32_t>(whole)), half | bit) << value;
        ASSERT_EQ(stochastic_half(sign * value, kLast), half | bit) << value;
        if (whole == 0) continue;
        ASSERT_EQ(stochastic_half(sign * value, static_cast<uint32_t>(whole - 1)), up | bit) << value;
        ASSERT_EQ(stochastic_half(sign * value, 0), up | bit) << value;
      }
    }
  }
}

TEST(StochasticHalf, RoundsNumbersBelowTheSmallestAndAboveTheLargest) {
  EXPECT_EQ(stochastic_half(0x1p-25f, 0x7fffffffu), 1);  // half of the smallest
  EXPECT_EQ(stochastic_half(0x1p-25f, 0x80000000u), 0);
  EXPECT_EQ(stochastic_half(-0x1p-26f, 0x3fffffffu), 0x8001);
  EXPECT_EQ(stochastic_half(0x1p-56f, 0), 1);  // one word of all
  EXPECT_EQ(stochastic_half(0x1p-56f, 1), 0);
  EXPECT_EQ(stochastic_half(0x1p-57f, 0), 0);
  EXPECT_EQ(stochastic_half(std::numeric_limits<float>::denorm_min(), 0), 0);
  EXPECT_EQ(stochastic_half(-0.0f, 0), 0x8000);
  EXPECT_EQ(stochastic_half(largest() + 16.0f, 0x7fffffffu), 0x7c00);
  EXPECT_EQ(stochastic_half(largest() + 16.0f, 0x80000000u), 0x7bff);
  EXPECT_EQ(stochastic_half(65536.0f, kLast), 0x7c00);
  EXPECT_EQ(stochastic_half(-1e30f, kLast), 0xfc00);
  EXPECT_EQ(stochastic_half(-std::numeric_limits<float>::infinity(), 0), 0xfc00);
}

}  // namespace
}  // namespace ipu::kernels
