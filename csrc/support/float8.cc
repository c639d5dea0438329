#include "support/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ipu {
namespace {

struct Format {
  int mantissa_bits, bias;
};
Format format_of(DType dtype) { return dtype == DType::kF8_143 ? Format{3, 8} : Format{2, 16}; }
constexpr uint8_t kNan = 0x80, kLargest = 0x7f;

}  // namespace

float float8_to_float(uint8_t bits, DType dtype) {
  if (bits == kNan) return std::numeric_limits<float>::quiet_NaN();
  const Format f = format_of(dtype);
  const int exponent = (bits & 0x7f) >> f.mantissa_bits, fraction = bits & ((1 << f.mantissa_bits) - 1);
  const int hidden =
      exponent == 0 ? 0 : 1 << f.mantissa_bits;  // subnormal: the exponent of the smallest normal
  const float size = std::ldexp(static_cast<float>(hidden + fraction),
                                (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits);
  return (bits & 0x80) != 0 ? -size : size;
}

uint8_t double_to_float8(double value, DType dtype, bool saturate) {
  if (!std::isfinite(value)) return kNan;
  const Format f = format_of(dtype);
  const uint8_t sign = value < 0 ? 0x80 : 0;
  int exponent = 0;
  if (value != 0) std::frexp(value, &exponent);
  // In steps of the last bit; below the smallest normal number the steps are those of the subnormal ones.
  const int step = std::max(exponent - 1, 1 - f.bias) - f.mantissa_bits;
  const double steps = std::nearbyint(std::ldexp(std::fabs(value), -step));
  if (steps == 0) return 0;  // without a sign: a negative zero is the NaN
  const double rounded = std::ldexp(steps, step);
  if (rounded > float8_to_float(kLargest, dtype)) return saturate ? sign | kLargest : kNan;
  const int normal = 1 << f.mantissa_bits;
  int whole = static_cast<int>(steps), field = step + f.mantissa_bits + f.bias;
  if (whole == 2 * normal) {  // rounded up to the next power of two
    whole = normal;
    ++field;
  }
  if (whole < normal) field = 0;
  return static_cast<uint8_t>(sign | field << f.mantissa_bits | (whole & (normal - 1)));
}

}  // namespace ipu
