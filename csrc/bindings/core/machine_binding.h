#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

// Machine files: what they say, and how two of them differ.
void bind_machines(pybind11::module_& m);

}  // namespace ipu::bindings
