// Python functions that a program calls by name (poptorch.CPU).
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::frontends::torch_frontend {
class Executor;
}

namespace ipu::bindings {

// Executor.set_host_functions({name: f}): f(replica, tensors) -> tensors, called by the thread of run().
void define_host_functions(pybind11::class_<frontends::torch_frontend::Executor>& executor);

}  // namespace ipu::bindings
