// 8-bit floats as stored bits: f8_143 (4 exponent bits, bias 8) and f8_152 (5 exponent bits, bias 16). There is no
// infinity; the pattern of a negative zero, 0x80, is the only NaN.
#pragma once

#include <cstdint>

#include "support/dtype.h"

namespace ipu {

// Rounded to nearest, ties to even. What is larger than the largest number becomes NaN, or that number where
// `saturate`; an infinity becomes NaN in any case.
uint8_t double_to_float8(double value, DType format, bool saturate = false);
float float8_to_float(uint8_t bits, DType format);

}  // namespace ipu
