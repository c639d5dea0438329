#include "support/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"

namespace ipu {

namespace {
int64_t checked_multiply(int64_t a, int64_t b, std::span<const int64_t> shape) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("tensor too large: the size of shape {} does not fit 64 bits.", to_string(shape)));
  return result;
}
}  // namespace

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count = checked_multiply(count, extent, shape);
  return count;
}

int64_t size_in_bytes(DType dtype, std::span<const int64_t> shape) {
  return checked_multiply(element_count(shape), size_in_bytes(dtype), shape);
}

Strides contiguous_strides(std::span<const int64_t> shape) {
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::string to_string(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

Shape broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} and {} do not broadcast.", to_string(a), to_string(b)));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Strides broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to) {
  Strides own = contiguous_strides(from);
  Strides strides(to.size(), 0);
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) strides[lead + i] = from[i] == 1 && to[lead + i] != 1 ? 0 : own[i];
  return strides;
}

}  // namespace ipu
