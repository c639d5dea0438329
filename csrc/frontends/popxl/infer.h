// Types of the outputs of an op: by its row's `infer`, or those of the IR that its `lower` builds.
#pragma once

#include <map>

#include "frontends/popxl/program.h"

namespace ipu::popxl {

// Error(kTypeMismatch) naming the op, its graph and the types of its inputs.
std::map<int, TensorInfo> infer(const Op& op);

// Operands that a program may make an op with, but not run it. Error(kTypeMismatch) naming op and inputs.
void check_late_types(const Op& op);

}  // namespace ipu::popxl
