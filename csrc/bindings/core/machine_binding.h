#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "target/machine.h"

namespace ipu::bindings {

// By name or path; Error(kEnvironment) with the names that are known.
const target::Machine& known_machine(const std::string& name_or_path);

// Machine files: what they say, how two of them differ, and what products take on a machine.
void bind_machines(pybind11::module_& m);
// What messages, passes and loops take on a machine.
void bind_estimates(pybind11::module_& m);

}  // namespace ipu::bindings
