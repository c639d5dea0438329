#include "support/narrowing.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace ipu {
namespace {

template <typename From>
From read(const std::byte* from, int64_t i) {
  From value;
  std::memcpy(&value, from + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

template <typename To>
void write(std::byte* to, int64_t i, To value) {
  std::memcpy(to + i * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

// Arrays of the host may lie at any address. No loop has a branch, so that the check is as wide as the copy. `bias`: of the smallest value that fits.
int64_t narrow_integers(const std::byte* from, std::byte* to, int64_t count, uint64_t bias) {
  auto* out = reinterpret_cast<uint32_t*>(to);
  uint64_t outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = read<uint64_t>(from, i);
    out[i] = static_cast<uint32_t>(value);
    outside |= (value + bias) >> 32;
  }
  return outside == 0 ? 0 : kUnfit;
}

int64_t narrow_floats(const std::byte* from, std::byte* to, int64_t count) {
  auto* out = reinterpret_cast<float*>(to);
  int64_t changed = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = read<double>(from, i);
    out[i] = static_cast<float>(value);
    changed += std::isinf(out[i]) & !std::isinf(value);
  }
  return changed;
}

template <typename To, typename From>
void widen_as(const std::byte* from, std::byte* to, int64_t count, bool add) {
  for (int64_t i = 0; i < count; ++i) {
    const To value = static_cast<To>(read<From>(from, i));
    write(to, i, add ? static_cast<To>(read<To>(to, i) + value) : value);
  }
}

}  // namespace

int64_t narrow(const std::byte* from, DType device, std::byte* to, int64_t count) {
  if (device == DType::kF32) return narrow_floats(from, to, count);
  return narrow_integers(from, to, count, device == DType::kI32 ? 0x80000000u : 0u);
}

void widen(const std::byte* from, DType device, std::byte* to, int64_t count, bool add) {
  if (device == DType::kF32) return widen_as<double, float>(from, to, count, add);
  if (device == DType::kI32) return widen_as<int64_t, int32_t>(from, to, count, add);
  widen_as<int64_t, uint32_t>(from, to, count, add);
}

int64_t first_unfit(const std::byte* from, int64_t count) {
  constexpr int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  int64_t i = 0;
  while (i + 1 < count && read_i64(from, i) >= low && read_i64(from, i) <= high) ++i;
  return i;
}

int64_t read_i64(const std::byte* from, int64_t index) { return read<int64_t>(from, index); }

}  // namespace ipu
