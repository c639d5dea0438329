#include "emulator/float_check.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "support/half.h"

namespace ipu::emulator {
namespace {

using Seen = FloatsSeen;

template <typename T>
Seen classify(T bits, T exponent, T fraction) {
  if ((bits & exponent) != exponent) return {};
  return {(bits & fraction) != 0, (bits & fraction) == 0};
}

template <typename T>
void scan(const std::byte* data, const Shape& shape, const Strides& strides, size_t dim, T exponent,
          T fraction, Seen& seen) {
  if (dim == shape.size()) {
    T bits;
    std::memcpy(&bits, data, sizeof bits);
    const Seen one = classify(bits, exponent, fraction);
    seen.nan |= one.nan;
    seen.infinite |= one.infinite;
    return;
  }
  for (int64_t i = 0; i < shape[dim]; ++i)
    scan(data + i * strides[dim] * static_cast<int64_t>(sizeof(T)), shape, strides, dim + 1, exponent,
         fraction, seen);
}

// Layouts pad with zeros, so their stored elements are looked at as they lie.
Seen look(const TensorSpec& spec, const std::byte* data) {
  Seen seen;
  if (data == nullptr || (spec.dtype != DType::kF32 && spec.dtype != DType::kF16)) return seen;
  Shape shape = spec.shape;
  Strides strides = spec.strides;
  if (spec.layout != Layout::kPlain || spec.is_contiguous()) {
    shape = {spec.stored_bytes() / size_in_bytes(spec.dtype)};
    strides = {1};
  }
  if (spec.dtype == DType::kF32) {
    scan<uint32_t>(data, shape, strides, 0, 0x7f800000u, 0x007fffffu, seen);
  } else {
    scan<uint16_t>(data, shape, strides, 0, 0x7c00, 0x03ff, seen);
  }
  return seen;
}

}  // namespace

FloatsSeen floats_in(const program::Instruction& step, std::byte* const* pointers) {
  FloatsSeen given;
  auto add = [&](const FloatsSeen& seen) {
    given.nan |= seen.nan;
    given.infinite |= seen.infinite;
  };
  for (size_t i = 0; i < step.operands.size(); ++i) add(look(step.operands[i].spec, pointers[i]));
  // Constants inside fused code are operands too: a mask of -inf is no overflow.
  for (const auto& [name, value] : step.attributes) {
    if (const auto* one = std::get_if<double>(&value)) add({std::isnan(*one), std::isinf(*one)});
    if (const auto* list = std::get_if<std::vector<double>>(&value))
      for (double x : *list) add({std::isnan(x), std::isinf(x)});
  }
  return given;
}

std::string float_exception(const program::Instruction& step, const FloatsSeen& given,
                            std::byte* const* pointers) {
  bool nan = false, infinite = false;
  for (size_t r = 0; r < step.results.size(); ++r) {
    const Seen seen = look(step.results[r].spec, pointers[step.operands.size() + r]);
    nan |= seen.nan;
    infinite |= seen.infinite;
  }
  if (nan && !given.nan) return "invalid operation: a result is not a number, and no operand was";
  if (infinite && !given.infinite && !given.nan)
    return "overflow or division by zero: a result is infinite, and no operand was";
  return "";
}

}  // namespace ipu::emulator
