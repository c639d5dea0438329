#include "ops/folding/exact_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/definition/node_import_call.h"
#include "ops/reference_tensor.h"

namespace ipu::ops {
namespace {

int64_t truncated(double value) {
  if (!(std::fabs(value) < 0x1p63)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

// Not through f64 where that would round twice.
double real_of(int64_t value, DType dtype) {
  return dtype == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : static_cast<double>(value);
}

}  // namespace

ExactTensor ExactTensor::of(const ConstantData& data) {
  if (is_floating_point(data.dtype)) return {data.dtype, data.shape, {}, reals_of(data)};
  return {data.dtype, data.shape, integers_of(data), {}};
}

ConstantPtr ExactTensor::to_constant() const {
  if (is_real()) return ReferenceTensor{{dtype, shape}, reals}.to_constant();
  auto data = std::make_shared<ConstantData>(ConstantData{dtype, shape, {}});
  data->bytes.resize(static_cast<size_t>(size_in_bytes(dtype, shape)));
  static_assert(std::endian::native == std::endian::little);  // the low bytes come first: what is left wraps
  const auto width = static_cast<size_t>(size_in_bytes(dtype));
  for (size_t i = 0; i < integers.size(); ++i)
    std::memcpy(data->bytes.data() + i * width, &integers[i], width);
  return data;
}

ExactTensor converted(const ExactTensor& tensor, DType dtype) {
  ExactTensor result{dtype, tensor.shape, {}, {}};
  if (result.is_real()) {
    result.reals = tensor.reals;
    for (const int64_t value : tensor.integers) result.reals.push_back(real_of(value, dtype));
  } else if (dtype == DType::kBool) {
    for (const int64_t value : tensor.integers) result.integers.push_back(value != 0 ? 1 : 0);
    for (const double value : tensor.reals) result.integers.push_back(value != 0.0 ? 1 : 0);
  } else {
    result.integers = tensor.integers;
    for (const double value : tensor.reals) result.integers.push_back(truncated(value));
  }
  return ExactTensor::of(*result.to_constant());
}

DType wider(DType a, DType b) {
  if (a == DType::kF64 || a == DType::kI64) return a;
  return b == DType::kF64 || b == DType::kI64 ? b : a;
}

size_t offset_of(size_t n, const Shape& shape, const Strides& strides) {
  auto rest = static_cast<int64_t>(n);
  int64_t offset = 0;
  for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) offset += rest % shape[d] * strides[d];
  return static_cast<size_t>(offset);
}

}  // namespace ipu::ops
