// The definition of the IR by execution, for Python: what a program means before and after passes.
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

void bind_interpreter(pybind11::module_& m);

}  // namespace ipu::bindings
