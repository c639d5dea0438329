#include "emulator/host_stream.h"

#include <cmath>
#include <cstring>

#include "support/error.h"
#include "support/half.h"

namespace ipu::emulator {
namespace {

using program::StreamMode;

template <typename To, typename From>
int64_t narrow(const std::byte* from, std::byte* to, int64_t count) {
  const From* in = reinterpret_cast<const From*>(from);
  To* out = reinterpret_cast<To*>(to);
  int64_t changed = 0;
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i, sizeof value);  // users' tensors are aligned to their element only
    out[i] = static_cast<To>(value);
    if constexpr (std::is_integral_v<To>) {
      changed += static_cast<From>(out[i]) != value;
    } else {
      changed += std::isinf(out[i]) && !std::isinf(value);
    }
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

HostStream::HostStream(const program::Stream& stream, const program::Program& program)
    : mode_(stream.mode),
      device_(stream.spec.dtype),
      host_(stream.host_dtype),
      count_(element_count(stream.spec.shape)),
      device_bytes_(stream.spec.stored_bytes()),
      host_bytes_(size_in_bytes(stream.host_dtype, stream.spec.shape)),
      period_(stream.period),
      accumulation_(program.accumulation),
      last_(program.device_iterations * program.accumulation - 1),
      replicas_(program.replicas),
      input_groups_(program.input_groups.count(program.replicas)),
      groups_(program.input_groups),
      constant_(stream.mode == StreamMode::kConstantInput),
      converts_(stream.host_dtype != stream.spec.dtype) {
  if (converts_ && !can_convert(device_, host_))
    throw Error(ErrorCode::kExecution, "stream cannot convert: '" + stream.name + "' is " +
                                           std::string(to_string(device_)) + " on the device and " +
                                           std::string(to_string(host_)) + " on the host");
  int64_t per_replica = program.device_iterations * program.accumulation;
  switch (mode_) {
    case StreamMode::kConstantInput:
      elements_ = 1;
      break;
    case StreamMode::kInput:
      elements_ = per_replica * input_groups_;
      break;
    case StreamMode::kAll:
      elements_ = per_replica * replicas_;
      break;
    case StreamMode::kEveryN:
      elements_ = per_replica / period_ * replicas_;
      break;
    case StreamMode::kFinal:
    case StreamMode::kSum:
      elements_ = replicas_;
      break;
  }
}

int64_t HostStream::position(int64_t cursor) const {
  switch (mode_) {
    case StreamMode::kConstantInput:
      return -1;
    case StreamMode::kInput:
    case StreamMode::kAll:
      return cursor;
    case StreamMode::kEveryN: {
      int64_t iteration = cursor / accumulation_;
      return (iteration + 1) % period_ != 0 ? -1
                                            : iteration / period_ * accumulation_ + cursor % accumulation_;
    }
    default:
      return cursor == last_ ? 0 : -1;
  }
}

int64_t HostStream::load(const std::byte* from, std::byte* to) const {
  if (!converts_) {
    std::memcpy(to, from, static_cast<size_t>(device_bytes_));
    return 0;
  }
  return host_ == DType::kI64 ? narrow<int32_t, int64_t>(from, to, count_)
                              : narrow<float, double>(from, to, count_);
}

void HostStream::store(const StreamBinding& binding, int64_t cursor, int replica,
                       const std::byte* from) const {
  int64_t element = replica;
  bool add = false;
  switch (mode_) {
    case StreamMode::kAll:
      element += cursor * replicas_;
      break;
    case StreamMode::kFinal:
      if (cursor != last_) return;
      break;
    case StreamMode::kEveryN: {
      int64_t iteration = cursor / accumulation_;
      if ((iteration + 1) % period_ != 0) return;
      element += (iteration / period_ * accumulation_ + cursor % accumulation_) * replicas_;
      break;
    }
    default:
      add = cursor > 0;
      break;
  }
  std::byte* to = binding.data + element * host_bytes_;
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
