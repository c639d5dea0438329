// The part of class Executor that only looks (observation.cc).
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "frontends/torch/executor/executor.h"

namespace ipu::bindings {

void define_observation(pybind11::class_<frontends::torch_frontend::Executor>& executor);

}  // namespace ipu::bindings
