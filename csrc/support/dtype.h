// Element types of values, buffers and kernels, and their sizes and names.
// Not here: conversions between them (half.h) and the mapping to torch (frontends/torch).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ipu {

// f64 exists in the interpreter only; i64 only at the host edges (docs/ir.md).
enum class DType : uint8_t {
  kF32,
  kF16,
  kF8_143,
  kF8_152,
  kI32,
  kU32,
  kI16,
  kU16,
  kI8,
  kU8,
  kBool,
  kI64,
  kF64,
};

int64_t size_in_bytes(DType dtype);
std::string_view to_string(DType dtype);                        // "f32", "i32", "bool", ...
std::optional<DType> dtype_from_string(std::string_view text);  // nullopt for an unknown name

constexpr bool is_floating_point(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kF8_143 || dtype == DType::kF8_152 ||
         dtype == DType::kF64;
}
constexpr bool is_integer(DType dtype) { return !is_floating_point(dtype) && dtype != DType::kBool; }

}  // namespace ipu
