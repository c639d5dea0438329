#pragma once

#include <pybind11/pybind11.h>

#include "report/verdict.h"

namespace ipu::bindings {

// {"verdict", "text", "limits", "ipus": [{"ipu", "total", "code", bytes by class, ...}]}
pybind11::dict shown(const report::Verdict& verdict);

// What programs need of the memory of machines.
void bind_memory(pybind11::module_& m);

}  // namespace ipu::bindings
