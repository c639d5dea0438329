// Matrix products as work on the tiles.
#pragma once

#include "ops/definition/work.h"

namespace ipu::ops {

// Whether a product or a convolution multiplies 8-bit floats: both operands are conversions of some, in another shape or order.
bool multiplies_float8(const ir::Op& op);

// How the library is asked for a product or a convolution: with the type of the op's first operand, the memory that its settings
// allow, and with sums in f32, or in f16 where the op has them so (half_partials.h) or is one itself.
target::ProductOptions product_options(const ir::Op& op, bool is_half_sum = false);

// [groups, rows, inputs] x [groups, inputs, outputs]. With an empty dimension it is a pass over zeros.
std::vector<target::Work> product_work(const ir::Op& op, const target::ProductShape& shape,
                                       bool is_half_sum = false);

// Of linear and fused_linear, of x [..., inputs] and weight [outputs, inputs].
std::vector<target::Work> linear_work(const ir::Op& op);

}  // namespace ipu::ops
