// The IPUs of this process's system, for front ends that hold devices apart from sessions.
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

void bind_devices(pybind11::module_& m);

}  // namespace ipu::bindings
