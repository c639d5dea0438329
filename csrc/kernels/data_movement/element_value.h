// A number as one element of a dtype, rounded as the interpreter rounds (floats to nearest, integers as
// given).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "support/dtype.h"
#include "support/half.h"

namespace ipu::kernels {

// The whole number towards zero; the nearest one that fits 64 bits, 0 for NaN.
inline int64_t whole_number(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  return value >= -0x1p63 ? static_cast<int64_t>(value) : value < 0.0 ? INT64_MIN : 0;
}

// nullopt for types that no kernel fills (f8).
inline std::optional<std::array<std::byte, 8>> element_value(DType dtype, double value) {
  std::array<std::byte, 8> bytes{};
  auto put = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof(element)); };
  const auto whole = whole_number(value);
  switch (dtype) {
    case DType::kF32:
      put(static_cast<float>(value));
      break;
    case DType::kF64:
      put(value);
      break;
    case DType::kF16:
      put(double_to_half(value));
      break;
    case DType::kI64:
      put(whole);
      break;
    case DType::kI32:
    case DType::kU32:
      put(static_cast<uint32_t>(whole));
      break;
    case DType::kI16:
    case DType::kU16:
      put(static_cast<uint16_t>(whole));
      break;
    case DType::kI8:
    case DType::kU8:
      put(static_cast<uint8_t>(whole));
      break;
    case DType::kBool:
      put(static_cast<uint8_t>(value != 0.0));
      break;
    case DType::kF8_143:
    case DType::kF8_152:
      return std::nullopt;
  }
  return bytes;
}

}  // namespace ipu::kernels
