// The pieces of module poptorch_core, one function per file.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ipu::bindings {

void define_capture(pybind11::module_& m);
void define_changes(pybind11::module_& m);
void define_device(pybind11::module_& m);  // after define_executor
void define_executor(pybind11::module_& m);
void define_executables(pybind11::module_& m);
void define_locks(pybind11::module_& m);
void define_options(pybind11::module_& m);
void define_processes(pybind11::module_& m);

}  // namespace ipu::bindings
