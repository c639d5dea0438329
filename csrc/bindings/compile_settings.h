// What Python says about a compilation, as a dictionary, in the types of the executor.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "frontends/torch/executor/executor.h"

namespace ipu::bindings {

// Error(kOptimizer) for a type that no optimizer keeps its state in.
optimizers::Spec optimizer_of(const pybind11::dict& d);

// What is not in the dictionary has its default. Error(kOption) for a name that nothing reads, an unknown
// schedule or mode of recomputation.
frontends::torch_frontend::CompileSettings settings_of(const pybind11::dict& d);

}  // namespace ipu::bindings
