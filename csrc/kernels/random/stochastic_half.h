// f32 to f16, up or down at random: of the two neighbours the farther one from 0 with the probability of the distance to
// the nearer one. Integers only, so all instruction sets give the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace ipu::kernels {

// `random`: 32 bits, uniform. A value that is a half stays itself. What lies between 65504 and 65536 becomes either the
// largest half or infinite; what is beyond becomes infinite. NaN stays NaN.
constexpr uint16_t stochastic_half(float value, uint32_t random) {
  constexpr uint32_t kInfinity = 0x7f800000u, kBeyond = 0x47800000u;  // of f32; 65536
  const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (size > kInfinity) return sign | 0x7e00u;
  if (size >= kBeyond) return sign | 0x7c00u;
  const uint32_t exponent = size >> 23;
  constexpr uint32_t kSmallestNormal = 113;  // 2^-14
  if (exponent >= kSmallestNormal) {
    const uint32_t half = (size - ((kSmallestNormal - 1) << 23)) >> 13;
    return static_cast<uint16_t>(sign | (half + (random < (size & 0x1fffu) << 19)));
  }
  // Steps of 2^-24: the significand counts 2^(exponent - 150).
  if (exponent == 0) return sign;  // below 2^-126; the bits do not reach so far
  const uint32_t significand = (size & 0x7fffffu) | 0x800000u, shift = 126 - exponent;  // 14 or more
  if (shift >= 56) return sign;
  const uint32_t half = shift < 32 ? significand >> shift : 0;
  const uint32_t share = shift <= 32 ? significand << (32 - shift) : significand >> (shift - 32);
  return static_cast<uint16_t>(sign | (half + (random < share)));
}

}  // namespace ipu::kernels
