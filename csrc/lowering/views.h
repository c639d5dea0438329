// Where a value lies: a virtual buffer, an offset and a strided view; and what view-like ops do to it without
// moving a byte.
#pragma once

#include <optional>

#include "ir/module.h"
#include "ops/definition/kernel_choice.h"
#include "support/tensor_spec.h"

namespace ipu::lowering {

// A place in a virtual buffer (see draft.h).
struct View {
  int buffer = -1;
  int64_t byte_offset = 0;
  TensorSpec spec;
};

using ops::spec_of;
// The stored elements in order as one dimension: for moving whole buffers of any layout.
TensorSpec flat(const TensorSpec& spec);

// Value of a constant whose elements are all the same, as a 0-d constant; nullptr otherwise.
ConstantPtr splat_of(const ConstantData& data);

// Whether `op` is a transpose whose result is stored by the same bytes as its operand: between an image [N, C, H, W] with the
// channels last and the image [N, H, W, C] stored as it is, or between panels of a matrix and those of its transpose.
bool changes_layout_alone(const ir::Op& op);

// The result of `op` as a view of its operand, when it is one: reshape, transpose, expand, slice and
// identities. nullopt: the op computes something, or its result cannot be said in non-negative strides.
std::optional<View> view_of(const ir::Op& op, const View& operand);

}  // namespace ipu::lowering
