#include "ops/definition/node_import_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "support/error.h"
#include "support/half.h"

namespace ipu::ops {
namespace {

template <typename Stored, typename Wanted>
std::vector<Wanted> converted(const ConstantData& data) {
  std::vector<Wanted> values(data.bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Wanted>(stored);
  }
  return values;
}

template <typename Wanted>
std::vector<Wanted> converted_integers(const ConstantData& data) {
  switch (data.dtype) {
    case DType::kI64:
      return converted<int64_t, Wanted>(data);
    case DType::kI32:
      return converted<int32_t, Wanted>(data);
    case DType::kU32:
      return converted<uint32_t, Wanted>(data);
    case DType::kI16:
      return converted<int16_t, Wanted>(data);
    case DType::kU16:
      return converted<uint16_t, Wanted>(data);
    case DType::kI8:
      return converted<int8_t, Wanted>(data);
    case DType::kU8:
    case DType::kBool:
      return converted<uint8_t, Wanted>(data);
    default:
      break;
  }
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("dtype mismatch: a constant of {} where integers are read", to_string(data.dtype)));
}

}  // namespace

std::vector<int64_t> integers_of(const ConstantData& data) { return converted_integers<int64_t>(data); }

std::vector<double> reals_of(const ConstantData& data) {
  if (data.dtype == DType::kF64) return converted<double, double>(data);
  if (data.dtype == DType::kF32) return converted<float, double>(data);
  if (data.dtype != DType::kF16) return converted_integers<double>(data);
  std::vector<double> values;
  for (const uint16_t bits : converted<uint16_t, uint16_t>(data)) values.push_back(half_to_float(bits));
  return values;
}

ConstantPtr NodeImportCall::known(int i, std::string_view what) {
  ConstantPtr data = constant(i);
  if (data == nullptr)
    unsupported(
        fmt::format("operand {}, '{}', is computed when the program runs; it must be an initialiser that is "
                    "not trained, or follow from constants",
                    i, what));
  return data;
}

std::vector<int64_t> NodeImportCall::clamped_operand_integers(int i, std::string_view what) {
  const ConstantPtr data = known(i, what);
  if (is_floating_point(data->dtype))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("dtype mismatch: operand {}, '{}', of {} is {}, not integers.", i, what,
                            described(), to_string(data->dtype)));
  std::vector<int64_t> values = integers_of(*data);
  for (int64_t& value : values)
    value =
        std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  return values;
}

std::vector<int64_t> NodeImportCall::operand_integers(int i, std::string_view what) {
  std::vector<int64_t> values = clamped_operand_integers(i, what);
  if (constant(i)->dtype == DType::kI64 || constant(i)->dtype == DType::kU32)
    for (const int64_t value : integers_of(*constant(i))) check_width(what, value);
  return values;
}

double NodeImportCall::operand_real(int i, std::string_view what) {
  const std::vector<double> values = reals_of(*known(i, what));
  if (values.size() != 1)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: operand {}, '{}', of {} has {} elements; it is one number.", i,
                            what, described(), values.size()));
  return values[0];
}

}  // namespace ipu::ops
