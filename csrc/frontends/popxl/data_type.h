// Element types as PopART names them, wider than those of the device: 64-bit types are narrowed when a program is
// compiled (data_type.cc), complex ones exist as names only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "support/dtype.h"

namespace ipu::popxl {

// Order and names of popart.DataType.
enum class DataType : uint8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kUint32,
  kUint64,
  kBool,
  kFloat,
  kFloat16,
  kBfloat16,
  kFloat8_143,
  kFloat8_152,
  kDouble,
  kComplex64,
  kComplex128,
  kString,
  kUndefined,
};

std::string_view to_string(DataType type);  // "FLOAT16", as popart prints it
int64_t size_in_bytes(DataType type);       // 0 for strings and the undefined type
// As the device computes it: i64 is i32, u64 u32, double f32. nullopt: it has nothing like it.
std::optional<DType> on_device(DataType type);
DataType from_device(DType type);
bool is_floating_point(DataType type);

}  // namespace ipu::popxl
