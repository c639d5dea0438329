// Python class ipu_core._native.ModelProgram: a model of node records and what a PopART session says of it.
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

void bind_model_program(pybind11::module_& m);

}  // namespace ipu::bindings
