// ipu_core._native.Program: a program of PopXL by the numbers of its graphs, tensors and ops. No logic: what is an
// object to a user is one in Python (popxl, popart._internal.ir).
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

void bind_program(pybind11::module_& m);

}  // namespace ipu::bindings
