// Elements of the host that are twice as wide as those of the device: i64 for i32 and u32 (the bits of an u64 are those of an
// i64 here), f64 for f32. The one place that converts them. Memory may be aligned to its elements only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/dtype.h"

namespace ipu {

// Whether `host` is the wide type of `device`.
constexpr bool narrows(DType host, DType device) {
  if (host == DType::kI64) return device == DType::kI32 || device == DType::kU32;
  return host == DType::kF64 && device == DType::kF32;
}

// Where an integer does not fit: its low half is stored.
inline constexpr int64_t kUnfit = -1;

// Stores `count` elements of the wide type as `device`; returns how many finite numbers became infinite, or kUnfit.
int64_t narrow(const std::byte* from, DType device, std::byte* to, int64_t count);
// Stores elements of `device` as the wide type, or adds them to what is there.
void widen(const std::byte* from, DType device, std::byte* to, int64_t count, bool add = false);

// The first of `count` i64 that is no i32, or the last one.
int64_t first_unfit(const std::byte* from, int64_t count);
int64_t read_i64(const std::byte* from, int64_t index);

}  // namespace ipu
