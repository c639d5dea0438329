// Types of the outputs of an op: by its row's `infer`, or those of the IR that its `lower` builds.
#pragma once

#include <map>

#include "frontends/popxl/program.h"

namespace ipu::popxl {

// Error(kTypeMismatch) naming the op, its graph and the types of its inputs.
std::map<int, TensorInfo> infer(const Op& op);

}  // namespace ipu::popxl
