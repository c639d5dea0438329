// Reads a strided or broadcast piece of a tensor into packed memory, element by element or run by run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ipu::kernels {

// `rows` steps of `row_stride`, each over `extents` with `strides` (elements; any sign or zero).
struct GatherDims {
  int64_t rows = 1;
  std::span<const int64_t> extents;
  int64_t row_stride = 0;
  std::span<const int64_t> strides;
};

// Elements of 1, 2, 4 or 8 bytes from `from` on, packed in order into `to`.
void gather_block(const GatherDims& dims, const std::byte* from, int64_t element_bytes, std::byte* to);
// The element offsets themselves, starting at `offset`.
void gather_offsets(const GatherDims& dims, int64_t offset, int32_t* to);

}  // namespace ipu::kernels
