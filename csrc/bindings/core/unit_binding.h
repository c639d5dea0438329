// Python class ipu_core.Unit: a unit of TensorFlow as node records, which native code runs by its number
// (runtime/host/unit_registry.h); the devices of units, and queues for their feeds.
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

void bind_units(pybind11::module_& m);

}  // namespace ipu::bindings
