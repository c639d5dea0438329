#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

// Machine files: what they say, how two of them differ, and what products take on a machine.
void bind_machines(pybind11::module_& m);
// What messages, passes and loops take on a machine.
void bind_estimates(pybind11::module_& m);

}  // namespace ipu::bindings
