#include "kernels/debug/tensor_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace ipu::kernels {
namespace {

std::string text_of(const Shape& shape, const std::vector<float>& values, const TextFormat& format = {}) {
  return tensor_text(TensorSpec::plain(DType::kF32, shape), reinterpret_cast<const std::byte*>(values.data()),
                     format);
}

TEST(TensorText, BracketsEachDimension) {
  EXPECT_EQ(text_of({2, 2}, {1, 2, 3, 4}), "(\n (1.000,2.000)\n (3.000,4.000)\n)");
  EXPECT_EQ(text_of({2, 1, 1}, {1, 2}), "(\n (\n  (1.000)\n )\n (\n  (2.000)\n )\n)");
  EXPECT_EQ(text_of({}, {1.5f}), "1.500");
  EXPECT_EQ(text_of({3}, {1, 2, 3}), "(1.000,2.000,3.000)");
  EXPECT_EQ(text_of({0}, {}), "()");
}

TEST(TensorText, AlignedElementsStandUnderEachOther) {
  TextFormat format;
  format.aligned = true;
  format.digits = 2;
  format.separator = ' ';
  EXPECT_EQ(text_of({2, 2}, {1, 20, -3, 4}, format), "(( 1.0 20.0)\n (-3.0  4.0))");
  EXPECT_EQ(text_of({2, 1, 1}, {1, 2}, format), "(((1.0))\n ((2.0)))");
  format.max_line_width = 9;
  EXPECT_EQ(text_of({3}, {1, 2, 3}, format), "(1.0 2.0\n 3.0)");
  format.digits = 0;  // as wide as they are
  EXPECT_EQ(text_of({2}, {1, 20}, format), "(1 20)");
  format = {};
  format.aligned = true;
  format.digits = 1;
  format.summarise_threshold = 1;
  format.edge_items = 1;
  EXPECT_EQ(text_of({3}, {1, 200, 30}, format), "( 1,...,30)");  // what is not shown has no width
}

TEST(TensorText, FormatsNumbers) {
  TextFormat format;
  EXPECT_EQ(text_of({2}, {1e9f, 0}), "(1.000e+09,0.000e+00)");
  EXPECT_EQ(text_of({1}, {1e-5f}), "(1.000e-05)");
  format.digits = 2;
  format.float_format = FloatFormat::kScientific;
  EXPECT_EQ(text_of({1}, {1.5f}, format), "(1.5e+00)");
  format.float_format = FloatFormat::kFixed;
  EXPECT_EQ(text_of({1}, {1e9f}, format), "(1000000000.0)");
  format.float_format = FloatFormat::kNone;
  EXPECT_EQ(text_of({2}, {0.1f, 3}, format), "(0.1,3)");
}

// A number that needs more characters than any buffer of a fixed size has.
TEST(TensorText, LongNumbersAreWrittenWhole) {
  TextFormat format;
  format.float_format = FloatFormat::kFixed;
  format.digits = kMaxDigits;
  const double largest = std::numeric_limits<double>::max();
  const std::string text =
      tensor_text(TensorSpec::plain(DType::kF64, {}), reinterpret_cast<const std::byte*>(&largest), format);
  EXPECT_EQ(text.size(), 309u + 1 + 99);
  EXPECT_EQ(std::stod(text), largest);
  // What a program could still ask for is cut to the limits.
  format.digits = 100'000;
  EXPECT_EQ(text_of({}, {0.5f}, format), "0.5" + std::string(99, '0'));
  format.digits = -3;
  EXPECT_EQ(text_of({}, {1.0f}, format), "1");
  format.summarise_threshold = 0;
  format.edge_items = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(text_of({2}, {1, 2}, format), "(1,2)");
}

TEST(TensorText, WritesIntegersAndTruthValues) {
  const int32_t counts[] = {-1, 7};
  EXPECT_EQ(tensor_text(TensorSpec::plain(DType::kI32, {2}), reinterpret_cast<const std::byte*>(counts), {}),
            "(-1,7)");
  const uint8_t flags[] = {1, 0};
  EXPECT_EQ(tensor_text(TensorSpec::plain(DType::kBool, {2}), reinterpret_cast<const std::byte*>(flags), {}),
            "(true,false)");
}

TEST(TensorText, ShowsTheEndsOfLongDimensions) {
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 0.0f);
  TextFormat format;
  format.summarise_threshold = 10;
  format.edge_items = 2;
  format.float_format = FloatFormat::kNone;
  EXPECT_EQ(text_of({20}, values, format), "(0,1,...,18,19)");
  EXPECT_EQ(text_of({5, 4}, values, format),
            "(\n (0,1,2,3)\n (4,5,6,7)\n ...\n (12,13,14,15)\n (16,17,18,19)\n)");
  format.summarise_threshold = 0;  // never
  EXPECT_EQ(text_of({5}, values, format), "(0,1,2,3,4)");
}

TEST(TensorText, BreaksLinesAtTheWidthWithTheGivenCharacters) {
  TextFormat format;
  format.max_line_width = 12;
  format.float_format = FloatFormat::kNone;
  format.separator = ';';
  format.open_bracket = '[';
  format.close_bracket = ']';
  EXPECT_EQ(text_of({6}, {100, 200, 300, 400, 500, 600}, format), "[100;200;\n  300;400;\n  500;600]");
  EXPECT_EQ(text_of({1, 3}, {100, 200, 300}, format), "[\n [100;200;\n   300]\n]");
  format.max_line_width = 0;  // any
  EXPECT_EQ(text_of({6}, {100, 200, 300, 400, 500, 600}, format), "[100;200;300;400;500;600]");
}

}  // namespace
}  // namespace ipu::kernels
