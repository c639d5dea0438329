#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

// What a machine form takes on a machine.
void bind_reports(pybind11::module_& m);

}  // namespace ipu::bindings
