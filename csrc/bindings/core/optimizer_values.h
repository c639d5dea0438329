// Optimizers as plain Python data, as popart._impl.optimizers writes them.
#pragma once

#include <pybind11/pybind11.h>

#include "optimizers/optimizer.h"

namespace ipu::bindings {

optimizers::Spec optimizer_spec_of(const pybind11::dict& data);

}  // namespace ipu::bindings
