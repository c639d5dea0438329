#include "frontends/popxl/data_type.h"

#include <array>

namespace ipu::popxl {
namespace {

struct Row {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> device;
};

// In the order of DataType.
constexpr std::array<Row, 19> kRows = {{{"UINT8", 1, DType::kU8},
                                        {"INT8", 1, DType::kI8},
                                        {"UINT16", 2, DType::kU16},
                                        {"INT16", 2, DType::kI16},
                                        {"INT32", 4, DType::kI32},
                                        {"INT64", 8, DType::kI32},
                                        {"UINT32", 4, DType::kU32},
                                        {"UINT64", 8, DType::kU32},
                                        {"BOOL", 1, DType::kBool},
                                        {"FLOAT", 4, DType::kF32},
                                        {"FLOAT16", 2, DType::kF16},
                                        {"BFLOAT16", 2, std::nullopt},
                                        {"FLOAT8_143", 1, DType::kF8_143},
                                        {"FLOAT8_152", 1, DType::kF8_152},
                                        {"DOUBLE", 8, DType::kF32},
                                        {"COMPLEX64", 8, std::nullopt},
                                        {"COMPLEX128", 16, std::nullopt},
                                        {"STRING", 0, std::nullopt},
                                        {"UNDEFINED", 0, std::nullopt}}};

const Row& row(DataType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

std::string_view to_string(DataType type) { return row(type).name; }
int64_t size_in_bytes(DataType type) { return row(type).bytes; }
std::optional<DType> on_device(DataType type) { return row(type).device; }

DataType from_device(DType type) {
  switch (type) {
    case DType::kF32:
      return DataType::kFloat;
    case DType::kF16:
      return DataType::kFloat16;
    case DType::kF8_143:
      return DataType::kFloat8_143;
    case DType::kF8_152:
      return DataType::kFloat8_152;
    case DType::kI32:
      return DataType::kInt32;
    case DType::kU32:
      return DataType::kUint32;
    case DType::kI16:
      return DataType::kInt16;
    case DType::kU16:
      return DataType::kUint16;
    case DType::kI8:
      return DataType::kInt8;
    case DType::kU8:
      return DataType::kUint8;
    case DType::kBool:
      return DataType::kBool;
    case DType::kI64:
      return DataType::kInt64;
    case DType::kF64:
      return DataType::kDouble;
  }
  return DataType::kUndefined;
}

bool is_floating_point(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8_143:
    case DataType::kFloat8_152:
    case DataType::kDouble:
      return true;
    default:
      return false;
  }
}

}  // namespace ipu::popxl
