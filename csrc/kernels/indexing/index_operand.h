// What index kernels share: a checked index operand and element types.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {

// An i32 operand whose values name places in [0, extent). Negative indices are the importer's business, as in
// torch.
struct IndexOperand {
  const int32_t* values;
  int64_t extent;
  KernelFault* fault;

  // The index at `position`, or -1 after reporting that it is out of range. Read once (the atomic load sees
  // to it, and costs nothing): what is checked is what is used, whoever writes to the memory meanwhile.
  int64_t at(int64_t position) const {
    const int32_t index = __atomic_load_n(values + position, __ATOMIC_RELAXED);
    if (index >= 0 && index < extent) return index;
    if (fault != nullptr) fault->index_out_of_range("index", position, index, extent);
    return -1;
  }
};

inline IndexOperand index_operand(const KernelCall& call, size_t operand, int64_t extent) {
  return {reinterpret_cast<const int32_t*>(call.operands[operand]), extent, call.fault};
}
inline bool is_index(const TensorSpec& spec) { return spec.dtype == DType::kI32 && spec.is_contiguous(); }

// The work of an element whose place depends on an index: it may miss every cache.
inline constexpr int64_t kIndexedCost = 8;

// Calls f(T{}) with the C++ type whose order and arithmetic are those of the dtype; false when there is none
// here.
template <class F>
bool with_ordered(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      f(float{});
      return true;
    case DType::kF16:
      f(_Float16{});
      return true;
    case DType::kI32:
      f(int32_t{});
      return true;
    case DType::kU32:
      f(uint32_t{});
      return true;
    case DType::kI16:
      f(int16_t{});
      return true;
    case DType::kU16:
      f(uint16_t{});
      return true;
    case DType::kI8:
      f(int8_t{});
      return true;
    case DType::kU8:
      f(uint8_t{});
      return true;
    default:
      return false;
  }
}
// The same for sums and products, which wrap alike with and without sign: one type for both.
template <class F>
bool with_number(DType dtype, F f) {
  return with_ordered(dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>)
      f(std::make_unsigned_t<T>{});
    else
      f(T{});
  });
}
// Calls f(T{}) with an unsigned type of the element's size, for kernels that only move elements.
template <class F>
void with_bits(DType dtype, F f) {
  switch (size_in_bytes(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace ipu::kernels
