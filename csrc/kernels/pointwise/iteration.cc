// Collapsing of dimensions and the cut into blocks.
#include "kernels/pointwise/iteration.h"

#include <algorithm>

#include "support/error.h"

namespace ipu::kernels {

Strides memory_strides(const TensorSpec& spec) {
  return spec.layout.is_plain() ? spec.strides : spec.layout.strides(spec.shape);
}

CollapsedDims collapse(std::span<const int64_t> extents, const std::vector<Strides>& strides) {
  CollapsedDims out;
  out.strides.resize(strides.size());
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    bool merges = !out.extents.empty();
    for (size_t k = 0; merges && k < strides.size(); ++k)
      merges = out.strides[k].back() == strides[k][d] * extents[d];
    if (merges) {
      out.extents.back() *= extents[d];
      for (size_t k = 0; k < strides.size(); ++k) out.strides[k].back() = strides[k][d];
    } else {
      out.extents.push_back(extents[d]);
      for (size_t k = 0; k < strides.size(); ++k) out.strides[k].push_back(strides[k][d]);
    }
  }
  return out;
}

BlockPlan::BlockPlan(std::span<const int64_t> extents, int64_t max_block) {
  elements = element_count(extents);
  if (elements == 0) return;
  split = extents.size();
  while (split > 0 && inner * extents[split - 1] <= max_block) inner *= extents[--split];
  if (split == 0) {  // all in one block
    if (!extents.empty()) {
      split_extent = rows = extents[0];
      inner /= extents[0];
    }
    blocks_per_run = blocks = 1;
    return;
  }
  --split;
  split_extent = extents[split];
  blocks_per_run = (split_extent * inner + max_block - 1) / max_block;
  rows =
      std::max<int64_t>(1, std::min((split_extent + blocks_per_run - 1) / blocks_per_run, max_block / inner));
  if (inner == 1) rows = std::min((rows + 15) / 16 * 16, max_block);  // whole vectors
  blocks_per_run = (split_extent + rows - 1) / rows;
  blocks = elements / (split_extent * inner) * blocks_per_run;
}

}  // namespace ipu::kernels
