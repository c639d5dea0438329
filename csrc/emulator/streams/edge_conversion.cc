#include "emulator/streams/edge_conversion.h"

#include <fmt/core.h>

#include <cstring>
#include <limits>

#include "support/error.h"
#include "support/half.h"
#include "support/narrowing.h"

namespace ipu::emulator {
namespace {

template <typename T>
void add_to(const std::byte* from, std::byte* to, int64_t count) {
  const T* in = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(out[i] + in[i]);
}

void add_half(const std::byte* from, std::byte* to, int64_t count) {
  const uint16_t* in = reinterpret_cast<const uint16_t*>(from);
  uint16_t* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = float_to_half(half_to_float(out[i]) + half_to_float(in[i]));
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
  if (converts_ && (!narrows(host_, device_) || device_ == DType::kU32))
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
  return narrow(from, device_, to, count_);
}

void EdgeConversion::raise_unfit(const std::byte* from, int64_t number) const {
  constexpr int64_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  const int64_t i = first_unfit(from, count_);
  // The elements of a stream lie one behind the other along the first dimension of the user's tensor.
  int64_t rest = number * count_ + i;
  Shape at(shape_.size());
  for (size_t d = at.size(); d-- > 1; rest /= shape_[d]) at[d] = rest % shape_[d];
  if (!at.empty()) at[0] = rest;
  throw Error(ErrorCode::kExecution,
              fmt::format("integer does not fit: element {} of input '{}' is {}, outside of [{}, {}]; "
                          "the IPU has 32-bit integers, so bring the values in range on the host",
                          to_string(at), name_, read_i64(from, i), low, high))
      .because("integer_does_not_fit");
}

void EdgeConversion::store(const std::byte* from, const StreamPort::Slot& slot) const {
  if (count_ == 0) return;  // neither side need have memory
  const bool add = slot.kind == StreamPort::Slot::Kind::kAdd;
  std::byte* to = slot.at;
  if (converts_) return widen(from, device_, to, count_, add);
  if (!add) {
    std::memcpy(to, from, static_cast<size_t>(device_bytes_));
    return;
  }
  switch (device_) {
    case DType::kF32:
      add_to<float>(from, to, count_);
      break;
    case DType::kF16:
      add_half(from, to, count_);
      break;
    case DType::kI32:
    case DType::kU32:
      add_to<uint32_t>(from, to, count_);
      break;
    case DType::kI16:
    case DType::kU16:
      add_to<uint16_t>(from, to, count_);
      break;
    case DType::kI8:
    case DType::kU8:
      add_to<uint8_t>(from, to, count_);
      break;
    case DType::kBool:  // a sum of truth values is their "or", as in arithmetic
      for (int64_t i = 0; i < count_; ++i) to[i] |= from[i];
      break;
    default:
      break;
  }
}

}  // namespace ipu::emulator
