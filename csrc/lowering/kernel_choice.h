// Which kernel runs an op on given views, and which of its operands a result may overwrite.
#pragma once

#include <optional>
#include <span>

#include "ops/definition/op_def.h"
#include "support/tensor_spec.h"

namespace ipu::lowering {

// The first candidate of the op's definition whose kernel takes these specs.
std::optional<ops::KernelChoice> choose_kernel(const ir::Op& op, std::span<const TensorSpec> operands,
                                               std::span<const TensorSpec> results);

// Whether the kernel has read operand `i` of an element before it writes that element of any result.
bool may_overwrite(const ir::Op& op, const ops::KernelChoice& choice, int i, const TensorSpec& operand,
                   std::span<const TensorSpec> results);

[[noreturn]] void throw_no_kernel(const ir::Op& op);

}  // namespace ipu::lowering
