#include "support/dtype.h"

#include <array>

namespace ipu {
namespace {
struct Row {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Row, 13> kRows{{{DType::kF32, "f32", 4},
                                     {DType::kF16, "f16", 2},
                                     {DType::kF8_143, "f8_143", 1},
                                     {DType::kF8_152, "f8_152", 1},
                                     {DType::kI32, "i32", 4},
                                     {DType::kU32, "u32", 4},
                                     {DType::kI16, "i16", 2},
                                     {DType::kU16, "u16", 2},
                                     {DType::kI8, "i8", 1},
                                     {DType::kU8, "u8", 1},
                                     {DType::kBool, "bool", 1},
                                     {DType::kI64, "i64", 8},
                                     {DType::kF64, "f64", 8}}};
}  // namespace

int64_t size_in_bytes(DType dtype) { return kRows[static_cast<size_t>(dtype)].bytes; }

std::string_view to_string(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_string(std::string_view text) {
  for (const Row& row : kRows)
    if (row.name == text) return row.dtype;
  return std::nullopt;
}

}  // namespace ipu
