// 8-bit floats: all codes, the numbers between them, and what has no code.
#include "support/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ipu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Float8, PublishedPatterns) {
  EXPECT_EQ(double_to_float8(0.75, DType::kF8_143), 0b00111100);
  EXPECT_EQ(double_to_float8(0.25, DType::kF8_152), 0b00111000);
  EXPECT_EQ(float8_to_float(0x7f, DType::kF8_143), 240.0f);
  EXPECT_EQ(float8_to_float(0x7f, DType::kF8_152), 57344.0f);
  EXPECT_EQ(float8_to_float(1, DType::kF8_143), std::ldexp(1.0f, -10));
  EXPECT_EQ(float8_to_float(1, DType::kF8_152), std::ldexp(1.0f, -17));
}

TEST(Float8, AllCodesComeBackAndNeighboursRoundToTheNearestWithTiesToEven) {
  for (const DType format : {DType::kF8_143, DType::kF8_152})
    for (int code = 0; code < 256; ++code) {
      const auto bits = static_cast<uint8_t>(code);
      const float value = float8_to_float(bits, format);
      EXPECT_EQ(double_to_float8(value, format), bits);
      if (code % 0x80 == 0x7f || bits == 0x80) continue;
      const double next = float8_to_float(static_cast<uint8_t>(code + 1), format);
      const double middle = (value + next) / 2;
      if (code != 0x80) {
        EXPECT_EQ(double_to_float8(middle, format) % 2, 0) << code;
        EXPECT_EQ(double_to_float8((value + middle) / 2, format), bits);
        EXPECT_EQ(double_to_float8((next + middle) / 2, format), bits + 1);
      }
    }
}

TEST(Float8, WhatIsTooLargeIsNoNumberOrTheLargest) {
  EXPECT_EQ(double_to_float8(247.9, DType::kF8_143), 0x7f);
  EXPECT_EQ(double_to_float8(248.0, DType::kF8_143), 0x80);
  EXPECT_EQ(double_to_float8(248.0, DType::kF8_143, true), 0x7f);
  EXPECT_EQ(double_to_float8(-1e300, DType::kF8_152, true), 0xff);
  EXPECT_EQ(double_to_float8(kInfinity, DType::kF8_152, true), 0x80);
  EXPECT_EQ(double_to_float8(std::nan(""), DType::kF8_143, true), 0x80);
  EXPECT_TRUE(std::isnan(float8_to_float(0x80, DType::kF8_152)));
}

TEST(Float8, ZeroHasNoSign) {
  EXPECT_EQ(double_to_float8(-0.0, DType::kF8_143), 0);
  EXPECT_EQ(double_to_float8(-1e-30, DType::kF8_143), 0);
}

}  // namespace
}  // namespace ipu
