// Which kernel runs an op: the first candidate of its definition whose prepare() takes the specs. Nothing else decides
// that.
#pragma once

#include <optional>
#include <span>

#include "ops/definition/op_def.h"
#include "support/tensor_spec.h"

namespace ipu::ops {

TensorSpec spec_of(const ir::Type& type);  // contiguous, as stored in the type's layout

// nullopt: no kernel takes these. Operands at the end that are absent may be left out.
std::optional<KernelChoice> choose_kernel(const ir::Op& op, std::span<const TensorSpec> operands,
                                          std::span<const TensorSpec> results);
// The same where all values lie as spec_of() says.
std::optional<KernelChoice> choose_kernel(const ir::Op& op);

}  // namespace ipu::ops
