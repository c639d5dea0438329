#include "emulator/streams/edge_conversion.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/error.h"
#include "support/half.h"

namespace ipu::emulator {
namespace {

// Both loops have no branch, so that the check is as wide as the copy. Users' tensors are aligned to their
// element only.
template <typename From>
From read(const std::byte* from, int64_t i) {
  From value;
  std::memcpy(&value, from + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

// Whether all values fit.
bool narrow_integers(const std::byte* from, std::byte* to, int64_t count) {
  auto* out = reinterpret_cast<int32_t*>(to);
  uint64_t outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = read<uint64_t>(from, i);
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(value));
    outside |= (value + 0x80000000u) >> 32;
  }
  return outside == 0;
}

// How many finite values became infinite.
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
void widen(const std::byte* from, std::byte* to, int64_t count, bool add) {
  const From* in = reinterpret_cast<const From*>(from);
  To* out = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i)
    out[i] = add ? static_cast<To>(out[i] + static_cast<To>(in[i])) : static_cast<To>(in[i]);
}

void add_half(const std::byte* from, std::byte* to, int64_t count) {
  const uint16_t* in = reinterpret_cast<const uint16_t*>(from);
  uint16_t* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = float_to_half(half_to_float(out[i]) + half_to_float(in[i]));
}

bool can_convert(DType device, DType host) {
  return (device == DType::kI32 && host == DType::kI64) || (device == DType::kF32 && host == DType::kF64);
}

}  // namespace

EdgeConversion::EdgeConversion(const program::Stream& stream)
    : name_(stream.name),
      shape_(stream.spec.shape),
      device_(stream.spec.dtype),
      host_(stream.host_dtype),
      count_(element_count(stream.spec.shape)),
      device_bytes_(stream.spec.stored_bytes()),
      host_bytes_(size_in_bytes(stream.host_dtype, stream.spec.shape)),
      converts_(stream.host_dtype != stream.spec.dtype) {
  if (converts_ && !can_convert(device_, host_))
    throw Error(ErrorCode::kExecution,
                fmt::format("stream cannot convert: '{}' is {} on the device and {} on the host", stream.name,
                            to_string(device_), to_string(host_)));
}

int64_t EdgeConversion::load(const std::byte* from, std::byte* to) const {
  if (count_ == 0) return 0;  // neither side need have memory
  if (!converts_) {
    std::memcpy(to, from, static_cast<size_t>(device_bytes_));
    return 0;
  }
  if (host_ == DType::kF64) return narrow_floats(from, to, count_);
  return narrow_integers(from, to, count_) ? 0 : kUnfit;
}

void EdgeConversion::raise_unfit(const std::byte* from, int64_t number) const {
  constexpr int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  int64_t i = 0;
  while (i + 1 < count_ && read<int64_t>(from, i) >= low && read<int64_t>(from, i) <= high) ++i;
  // The elements of a stream lie one behind the other along the first dimension of the user's tensor.
  int64_t rest = number * count_ + i;
  Shape at(shape_.size());
  for (size_t d = at.size(); d-- > 1; rest /= shape_[d]) at[d] = rest % shape_[d];
  if (!at.empty()) at[0] = rest;
  throw Error(ErrorCode::kExecution,
              fmt::format("integer does not fit: element {} of input '{}' is {}, outside of [{}, {}]; "
                          "the IPU has 32-bit integers, so bring the values in range on the host",
                          to_string(at), name_, read<int64_t>(from, i), low, high));
}

void EdgeConversion::store(const std::byte* from, const StreamPort::Slot& slot) const {
  if (count_ == 0) return;  // neither side need have memory
  const bool add = slot.kind == StreamPort::Slot::Kind::kAdd;
  std::byte* to = slot.at;
  if (converts_) {
    if (host_ == DType::kI64) {
      widen<int64_t, int32_t>(from, to, count_, add);
    } else {
      widen<double, float>(from, to, count_, add);
    }
    return;
  }
  if (!add) {
    std::memcpy(to, from, static_cast<size_t>(device_bytes_));
    return;
  }
  switch (device_) {
    case DType::kF32:
      widen<float, float>(from, to, count_, true);
      break;
    case DType::kF16:
      add_half(from, to, count_);
      break;
    case DType::kI32:
    case DType::kU32:
      widen<uint32_t, uint32_t>(from, to, count_, true);
      break;
    case DType::kI16:
    case DType::kU16:
      widen<uint16_t, uint16_t>(from, to, count_, true);
      break;
    case DType::kI8:
    case DType::kU8:
      widen<uint8_t, uint8_t>(from, to, count_, true);
      break;
    case DType::kBool:  // a sum of truth values is their "or", as in arithmetic
      for (int64_t i = 0; i < count_; ++i) to[i] |= from[i];
      break;
    default:
      break;
  }
}

}  // namespace ipu::emulator
