// Strided reads: the innermost run is a copy, a fill or a strided loop; outer dimensions recurse.
#include "kernels/pointwise/gather_block.h"

#include <algorithm>
#include <cstring>

namespace ipu::kernels {
namespace {

template <class T>
T* gather(const T* from, int64_t extent, int64_t stride, std::span<const int64_t> extents,
          std::span<const int64_t> strides, T* to) {
  if (extents.empty()) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(extent) * sizeof(T));
    } else if (stride == 0) {
      std::fill_n(to, extent, *from);
    } else {
      for (int64_t i = 0; i < extent; ++i) to[i] = from[i * stride];
    }
    return to + extent;
  }
  for (int64_t i = 0; i < extent; ++i)
    to = gather(from + i * stride, extents[0], strides[0], extents.subspan(1), strides.subspan(1), to);
  return to;
}

int32_t* offsets_of(int64_t offset, int64_t extent, int64_t stride, std::span<const int64_t> extents,
                    std::span<const int64_t> strides, int32_t* to) {
  if (extents.empty()) {
    for (int64_t i = 0; i < extent; ++i) to[i] = static_cast<int32_t>(offset + i * stride);
    return to + extent;
  }
  for (int64_t i = 0; i < extent; ++i)
    to = offsets_of(offset + i * stride, extents[0], strides[0], extents.subspan(1), strides.subspan(1), to);
  return to;
}

template <class T>
void gather_as(const GatherDims& dims, const std::byte* from, std::byte* to) {
  gather(reinterpret_cast<const T*>(from), dims.rows, dims.row_stride, dims.extents, dims.strides,
         reinterpret_cast<T*>(to));
}

}  // namespace

void gather_block(const GatherDims& dims, const std::byte* from, int64_t element_bytes, std::byte* to) {
  switch (element_bytes) {
    case 1:
      return gather_as<uint8_t>(dims, from, to);
    case 2:
      return gather_as<uint16_t>(dims, from, to);
    case 4:
      return gather_as<uint32_t>(dims, from, to);
    default:
      return gather_as<uint64_t>(dims, from, to);
  }
}

void gather_offsets(const GatherDims& dims, int64_t offset, int32_t* to) {
  offsets_of(offset, dims.rows, dims.row_stride, dims.extents, dims.strides, to);
}

}  // namespace ipu::kernels
