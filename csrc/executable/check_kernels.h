// The steps of a program from a file against the definitions of the operations whose kernels they run.
#pragma once

#include "program/program.h"

namespace ipu::executable {

// Kernels believe that lowering gave them operands and attributes of an operation that was verified. A file
// has no such history: each kernel step is held against the type rule of its operation. Throws
// Error(kInvalidProgram) naming the step. Packed operands are seen in their logical shapes. Kernels without
// an operation of their name ("pointwise", "copy") check themselves.
void check_kernels(const program::Program& program);

}  // namespace ipu::executable
