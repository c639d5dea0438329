// Conversions of constants, and tensors that follow from a few numbers.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/node_support.h"
#include "ops/folding/exact_tensor.h"
#include "ops/folding/fold_node.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

// What ONNX calls the type in a model, where the device has narrower ones.
DType model_dtype(NodeImportCall& call, int64_t element_type) {
  if (element_type == 7) return DType::kI64;
  return element_type == 11 ? DType::kF64 : onnx_dtype(call, element_type);
}

// start, start + delta, ... up to before limit. Error(kTypeMismatch) for a delta of 0.
int64_t steps_between(NodeImportCall& call, const ExactTensor& start, const ExactTensor& limit,
                      const ExactTensor& delta) {
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has {}, {} and {} elements; each operand is one number.",
                            call.described(), start.size(), limit.size(), delta.size()));
  if (delta.is_real() ? delta.reals[0] == 0.0 : delta.integers[0] == 0)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("value out of range: {} steps by 0.", call.described()));
  constexpr int64_t kMost = int64_t{1} << 62;
  if (delta.is_real()) {
    const double count = std::ceil((limit.reals[0] - start.reals[0]) / delta.reals[0]);
    return count > 0 ? static_cast<int64_t>(std::min(count, static_cast<double>(kMost))) : 0;
  }
  // Unsigned: the span of two integers may have 64 bits.
  const bool rises = delta.integers[0] > 0;
  const int64_t low = (rises ? start : limit).integers[0], high = (rises ? limit : start).integers[0];
  if (low >= high) return 0;
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto step = static_cast<uint64_t>(delta.integers[0]);
  return static_cast<int64_t>(std::min<uint64_t>((span - 1) / (rises ? step : -step) + 1, kMost));
}

bool fold_range(NodeImportCall& call) {
  if (call.operand_count() != 3) return false;
  ExactTensor start = ExactTensor::of(*call.constant(0)), limit = ExactTensor::of(*call.constant(1)),
              delta = ExactTensor::of(*call.constant(2));
  const DType dtype = wider(start.dtype, wider(limit.dtype, delta.dtype));
  for (ExactTensor* operand : {&start, &limit, &delta}) {
    if (operand->is_real() != is_floating_point(dtype)) return false;
    *operand = converted(*operand, dtype);
  }
  const int64_t count = steps_between(call, start, limit, delta);
  if (count > kMostFolded) return false;
  ExactTensor result{dtype, {count}, {}, {}};
  for (int64_t i = 0; i < count; ++i) {
    if (result.is_real()) {
      result.reals.push_back(start.reals[0] + static_cast<double>(i) * delta.reals[0]);
    } else {
      result.integers.push_back(start.integers[0] + i * delta.integers[0]);
    }
  }
  call.set_constant(0, result.to_constant());
  return true;
}

// The places of what is not zero: [rank, count].
bool fold_nonzero(NodeImportCall& call) {
  const ExactTensor x = ExactTensor::of(*call.constant(0));
  std::vector<std::vector<int64_t>> places(x.shape.size());
  const Strides strides = contiguous_strides(x.shape);
  int64_t count = 0;  // a scalar has no places, and counts
  for (size_t n = 0; n < x.size(); ++n) {
    if (x.is_real() ? x.reals[n] == 0.0 : x.integers[n] == 0) continue;
    ++count;
    for (size_t d = 0; d < places.size(); ++d)
      places[d].push_back(static_cast<int64_t>(n) / strides[d] % x.shape[d]);
  }
  ExactTensor result{DType::kI64, {std::ssize(places), count}, {}, {}};
  for (const std::vector<int64_t>& row : places)
    result.integers.insert(result.integers.end(), row.begin(), row.end());
  call.set_constant(0, result.to_constant());
  return true;
}

bool fold_constant_of_shape(NodeImportCall& call) {
  const Shape shape = operand_sizes(call, 0, "shape");
  ConstantPtr one = constant_of(DType::kF32, {}, {0.0});
  if (call.has("value")) one = call.tensor("value");
  const int64_t count = element_count(shape);
  if (count > kMostFolded || element_count(one->shape) != 1) return false;
  auto filled = std::make_shared<ConstantData>(ConstantData{one->dtype, shape, {}});
  for (int64_t i = 0; i < count; ++i)
    filled->bytes.insert(filled->bytes.end(), one->bytes.begin(), one->bytes.end());
  call.set_constant(0, std::move(filled));
  return true;
}

}  // namespace

bool fold_cast(NodeImportCall& call, std::string_view type) {
  if (type != "Cast" && type != "CastLike") return false;
  call.ignore("saturate");
  call.ignore("round_mode");
  if (type == "CastLike" && call.operand_count() != 2) return false;
  const DType dtype = type == "Cast" ? model_dtype(call, call.integer("to")) : call.constant(1)->dtype;
  call.set_constant(0, converted(ExactTensor::of(*call.constant(0)), dtype).to_constant());
  return true;
}

bool fold_creation(NodeImportCall& call, std::string_view type) {
  if (type == "Range") return fold_range(call);
  if (type == "NonZero") return fold_nonzero(call);
  return type == "ConstantOfShape" && fold_constant_of_shape(call);
}

}  // namespace ipu::ops
