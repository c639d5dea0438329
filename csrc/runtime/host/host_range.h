// A part of an array of the host that a run reads or fills: scalars from `begin` on, and from the front again after the
// last. The array may have the wide type of the device's (support/narrowing.h), and f16 for f32; never another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "support/dtype.h"

namespace ipu::runtime {

template <typename Byte>
struct RangeOf {
  DType dtype = DType::kF32;
  std::span<Byte> bytes;  // of the whole array
  int64_t begin = 0;

  int64_t scalars() const { return static_cast<int64_t>(bytes.size()) / size_in_bytes(dtype); }
  // Whether the device can use `count` scalars of type `device` where they lie.
  bool is_plain(DType device, int64_t count) const { return dtype == device && begin + count <= scalars(); }
  Byte* data() const { return bytes.data() + begin * size_in_bytes(dtype); }
};
using HostRange = RangeOf<std::byte>;
using ConstHostRange = RangeOf<const std::byte>;

// Error(kTypeMismatch) for a type that does not stand for `device`, and for an array without scalars of which some
// are wanted; `what` is what messages call the array.
void check_range(const char* what, const ConstHostRange& range, DType device, int64_t count);

// The next `count` scalars as the device has them; an integer that does not fit is its low half.
void gather(const ConstHostRange& from, DType device, int64_t count, std::byte* to);
// As if one scalar after the other were stored: later ones replace earlier ones.
void scatter(const std::byte* from, DType device, int64_t count, const HostRange& to);

}  // namespace ipu::runtime
