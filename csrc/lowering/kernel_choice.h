// Which operands of a kernel its results may overwrite.
#pragma once

#include <span>

#include "ops/definition/op_def.h"
#include "support/tensor_spec.h"

namespace ipu::lowering {

// Whether the kernel has read operand `i` of an element before it writes that element of any result.
bool may_overwrite(const ir::Op& op, const ops::KernelChoice& choice, int i, const TensorSpec& operand,
                   std::span<const TensorSpec> results);

[[noreturn]] void throw_no_kernel(const ir::Op& op);

}  // namespace ipu::lowering
