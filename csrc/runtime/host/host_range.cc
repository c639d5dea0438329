#include "runtime/host/host_range.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "support/error.h"
#include "support/half.h"
#include "support/narrowing.h"

namespace ipu::runtime {
namespace {

// Calls visit(place in the array, number of the first scalar, scalars) for each piece of `count` scalars from `begin` on.
template <typename Visit>
void each_piece(int64_t begin, int64_t count, int64_t size, Visit visit) {
  for (int64_t done = 0, at = count > 0 ? begin % size : 0; done < count; at = 0) {
    const int64_t piece = std::min(count - done, size - at);
    visit(at, done, piece);
    done += piece;
  }
}

// Arrays of the host may lie at any address.
template <typename From, typename To>
void convert(const std::byte* from, std::byte* to, int64_t count, To (*as)(From)) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof value), sizeof value);
    const To made = as(value);
    std::memcpy(to + i * static_cast<int64_t>(sizeof made), &made, sizeof made);
  }
}

bool is_half(DType host, DType device) { return host == DType::kF16 && device == DType::kF32; }

}  // namespace

void check_range(const char* what, const ConstHostRange& range, DType device, int64_t count) {
  if (range.dtype != device && !narrows(range.dtype, device) && !is_half(range.dtype, device))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("Data type mismatch: {} takes {}, got {}", what,
                                                      to_string(device), to_string(range.dtype)));
  if (range.begin < 0 || range.begin > range.scalars())
    throw Error(ErrorCode::kTypeMismatch, fmt::format("number out of range: {} begins at {} of {}", what,
                                                      range.begin, range.scalars()));
  if (count > 0 && range.scalars() == 0)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("Shape mismatch: {} takes {} elements of {}, got none",
                                                      what, count, to_string(device)));
}

void gather(const ConstHostRange& from, DType device, int64_t count, std::byte* to) {
  const int64_t host_size = size_in_bytes(from.dtype), size = size_in_bytes(device);
  each_piece(from.begin, count, from.scalars(), [&](int64_t at, int64_t done, int64_t piece) {
    const std::byte* source = from.bytes.data() + at * host_size;
    std::byte* target = to + done * size;
    if (from.dtype == device)
      std::memcpy(target, source, static_cast<size_t>(piece * size));
    else if (is_half(from.dtype, device))
      convert<uint16_t, float>(source, target, piece, &half_to_float);
    else
      narrow(source, device, target, piece);
  });
}

void scatter(const std::byte* from, DType device, int64_t count, const HostRange& to) {
  const int64_t room = to.scalars();
  if (room == 0) return;
  const int64_t host_size = size_in_bytes(to.dtype), size = size_in_bytes(device);
  const int64_t replaced = std::max<int64_t>(count - room, 0);
  each_piece(to.begin + replaced, count - replaced, room, [&](int64_t at, int64_t done, int64_t piece) {
    const std::byte* source = from + (replaced + done) * size;
    std::byte* target = to.bytes.data() + at * host_size;
    if (to.dtype == device)
      std::memcpy(target, source, static_cast<size_t>(piece * size));
    else if (is_half(to.dtype, device))
      convert<float, uint16_t>(source, target, piece, &float_to_half);
    else
      widen(source, device, target, piece);
  });
}

}  // namespace ipu::runtime
