// IEEE 754 binary16 as stored bits; conversions round to nearest even. Vector conversions are the kernels'
// business.
#pragma once

#include <cstdint>

namespace ipu {

uint16_t float_to_half(float value);
uint16_t double_to_half(double value);  // one rounding, unlike a detour over f32
float half_to_float(uint16_t bits);

}  // namespace ipu
