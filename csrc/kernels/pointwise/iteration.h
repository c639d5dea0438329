// How kernels walk tensors: dimensions collapsed over all operands, and the cut of a result into blocks of
// consecutive elements. Depends on shapes and strides only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/lanes.h"
#include "support/shape.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

// Strides in elements of the logical dimensions as they lie in memory. Not for panels (IPU_CHECK).
Strides memory_strides(const TensorSpec& spec);

// strides[k] of operand k over `extents`; adjacent dimensions that are one run for every operand are merged,
// extents of 1 dropped. A scalar has no dimensions.
struct CollapsedDims {
  Shape extents;
  std::vector<Strides> strides;
};
CollapsedDims collapse(std::span<const int64_t> extents, const std::vector<Strides>& strides);

// Result elements in row-major order as blocks: `rows` steps of dimension `split` times all of the inner
// dimensions.
struct BlockPlan {
  BlockPlan(std::span<const int64_t> extents, int64_t max_block);

  int64_t elements = 0;
  size_t split = 0;            // dimensions before it are outer; it and the rest make a block
  int64_t split_extent = 1;    // 1 when there are no dimensions
  int64_t rows = 1;            // of `split` per block; the last block of a run may have fewer
  int64_t inner = 1;           // elements of one row
  int64_t blocks_per_run = 0;  // of one outer index
  int64_t blocks = 0;
  int64_t block_elements() const { return rows * inner; }
};

}  // namespace ipu::kernels
