// What rows that read or write by index share.
#pragma once

#include <vector>

#include "frontends/popxl/lower_call.h"

namespace ipu::popxl {

// Orders that bring `axis` behind the group, which is axis 0, and back.
struct Groups {
  Groups(const Shape& shape, int64_t axis);
  std::vector<int64_t> permutation, back;
};
// 0, extent, 2 * extent, ... along dimension 0 of `shape`: where the merged [group, extent] of a group begins.
ir::Value* group_starts(LowerCall& c, int64_t extent, const Shape& shape);
// Axis 0 of both is the group, so it is not `axis`.
void require_groups(const Shape& data, const Shape& index, int64_t groups, int64_t axis);

// A block of a tensor: `sizes` elements along `axes` (from the front), all along the others.
struct Block {
  std::vector<int64_t> axes, sizes;
};
Block block_of(const LowerCall& c);
// i32: element i of the index, and the `size` - 1 places after it. One outside the tensor is an error of the run.
ir::Value* block_places(LowerCall& c, ir::Value* index, size_t i, int64_t size);

int64_t first_integer(const ConstantData& data);

}  // namespace ipu::popxl
