#include "support/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ipu {
namespace {

TEST(Half, KnownValuesConvert) {
  EXPECT_EQ(float_to_half(0.0f), 0x0000);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
  EXPECT_EQ(float_to_half(1.0f), 0x3c00);
  EXPECT_EQ(float_to_half(-2.0f), 0xc000);
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(0x1p-24f), 0x0001);
  EXPECT_EQ(float_to_half(0x1p-14f), 0x0400);
  EXPECT_EQ(float_to_half(1.0f / 3.0f), 0x3555);
}

TEST(Half, TiesGoToEven) {
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);
  EXPECT_EQ(float_to_half(3 * 0x1p-25f), 0x0002);
  EXPECT_EQ(double_to_half(1.0 + 0x1p-11 + 0x1p-40),
            0x3c01);  // f32 would lose the last bit and round to even
}

TEST(Half, OverflowRoundsToInfinityFrom65520) {
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(Half, NanStaysNan) {
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(half_to_float(double_to_half(std::numeric_limits<double>::quiet_NaN()))));
}

TEST(Half, EveryHalfSurvivesTheRoundTripThroughFloatAndDouble) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), half) << value;
    ASSERT_EQ(double_to_half(value), half) << value;
  }
}

TEST(Half, FloatAndDoubleRoundAlikeBetweenNeighbours) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    const float low = half_to_float(static_cast<uint16_t>(bits)),
                high = half_to_float(static_cast<uint16_t>(bits + 1));
    for (float part : {0.25f, 0.5f, 0.75f}) {
      const float value = low + (high - low) * part;
      ASSERT_EQ(float_to_half(value), double_to_half(value)) << value;
    }
  }
}

}  // namespace
}  // namespace ipu
