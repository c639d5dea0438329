#include "ops/reference_tensor.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "support/error.h"
#include "support/float8.h"
#include "support/half.h"

namespace ipu::ops {
namespace {

template <typename T>
void widen(const void* bytes, std::vector<double>& values) {
  const auto* source = static_cast<const std::byte*>(bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, source + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(element);
  }
}

template <typename T>
void narrow(const std::vector<double>& values, std::byte* bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T element = static_cast<T>(values[i]);
    std::memcpy(bytes + i * sizeof(T), &element, sizeof(T));
  }
}

// Truncates; values beyond 64 bits and NaN have no integer, they give 0. The caller wraps to the width.
int64_t to_integer(double value) {
  if (!(std::fabs(value) < 0x1p63)) return 0;
  return static_cast<int64_t>(value);
}

[[noreturn]] void no_such_bytes(DType dtype) {
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unsupported dtype: constants of type {} cannot be read.", to_string(dtype)));
}

}  // namespace

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return value;
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return half_to_float(double_to_half(value));
    case DType::kI64:
      return static_cast<double>(to_integer(value));
    case DType::kI32:
      return static_cast<int32_t>(to_integer(value));
    case DType::kU32:
      return static_cast<uint32_t>(to_integer(value));
    case DType::kI16:
      return static_cast<int16_t>(to_integer(value));
    case DType::kU16:
      return static_cast<uint16_t>(to_integer(value));
    case DType::kI8:
      return static_cast<int8_t>(to_integer(value));
    case DType::kU8:
      return static_cast<uint8_t>(to_integer(value));
    case DType::kBool:
      return value != 0 ? 1.0 : 0.0;
    case DType::kF8_143:
    case DType::kF8_152:
      return float8_to_float(double_to_float8(value, dtype), dtype);
  }
  no_such_bytes(dtype);
}

void round_to(ReferenceTensor& tensor) {
  if (tensor.type.dtype == DType::kF64) return;
  for (double& value : tensor.values) value = round_to(tensor.type.dtype, value);
}

ReferenceTensor ReferenceTensor::zeros(ir::Type type) {
  type.layout = Layout::kPlain;
  const auto count = static_cast<size_t>(type.elements());
  return {std::move(type), std::vector<double>(count, 0.0)};
}

ReferenceTensor ReferenceTensor::from_bytes(ir::Type type, const void* bytes) {
  ReferenceTensor tensor = zeros(std::move(type));
  switch (tensor.type.dtype) {
    case DType::kF64:
      widen<double>(bytes, tensor.values);
      break;
    case DType::kF32:
      widen<float>(bytes, tensor.values);
      break;
    case DType::kF16:
      widen<uint16_t>(bytes, tensor.values);
      for (double& value : tensor.values) value = half_to_float(static_cast<uint16_t>(value));
      break;
    case DType::kI64:
      widen<int64_t>(bytes, tensor.values);
      break;
    case DType::kI32:
      widen<int32_t>(bytes, tensor.values);
      break;
    case DType::kU32:
      widen<uint32_t>(bytes, tensor.values);
      break;
    case DType::kI16:
      widen<int16_t>(bytes, tensor.values);
      break;
    case DType::kU16:
      widen<uint16_t>(bytes, tensor.values);
      break;
    case DType::kI8:
      widen<int8_t>(bytes, tensor.values);
      break;
    case DType::kU8:
    case DType::kBool:
      widen<uint8_t>(bytes, tensor.values);
      break;
    case DType::kF8_143:
    case DType::kF8_152:
      widen<uint8_t>(bytes, tensor.values);
      for (double& value : tensor.values)
        value = float8_to_float(static_cast<uint8_t>(value), tensor.type.dtype);
  }
  return tensor;
}

ReferenceTensor ReferenceTensor::from_constant(const ConstantData& data) {
  IPU_CHECK(static_cast<int64_t>(data.bytes.size()) == size_in_bytes(data.dtype, data.shape),
            fmt::format("a constant of shape {} has {} bytes", to_string(data.shape), data.bytes.size()));
  return from_bytes({data.dtype, data.shape, Layout::kPlain}, data.bytes.data());
}

ConstantPtr ReferenceTensor::to_constant() const {
  auto data = std::make_shared<ConstantData>(ConstantData{type.dtype, type.shape, {}});
  data->bytes.resize(static_cast<size_t>(size_in_bytes(type.dtype, type.shape)));
  std::byte* bytes = data->bytes.data();
  std::vector<double> rounded = values;
  for (double& value : rounded) value = round_to(type.dtype, value);
  switch (type.dtype) {
    case DType::kF64:
      narrow<double>(rounded, bytes);
      break;
    case DType::kF32:
      narrow<float>(rounded, bytes);
      break;
    case DType::kF16:
      for (double& value : rounded) value = double_to_half(value);
      narrow<uint16_t>(rounded, bytes);
      break;
    case DType::kI64:
      narrow<int64_t>(rounded, bytes);
      break;
    case DType::kI32:
      narrow<int32_t>(rounded, bytes);
      break;
    case DType::kU32:
      narrow<uint32_t>(rounded, bytes);
      break;
    case DType::kI16:
      narrow<int16_t>(rounded, bytes);
      break;
    case DType::kU16:
      narrow<uint16_t>(rounded, bytes);
      break;
    case DType::kI8:
      narrow<int8_t>(rounded, bytes);
      break;
    case DType::kU8:
    case DType::kBool:
      narrow<uint8_t>(rounded, bytes);
      break;
    case DType::kF8_143:
    case DType::kF8_152:
      for (double& value : rounded) value = double_to_float8(value, type.dtype);
      narrow<uint8_t>(rounded, bytes);
  }
  return data;
}

}  // namespace ipu::ops
