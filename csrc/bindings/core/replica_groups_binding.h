// Groups of replicas (support/replica_grouping.h) as lists of Python.
#pragma once

#include <pybind11/pybind11.h>

namespace ipu::bindings {

void bind_replica_groups(pybind11::module_& m);

}  // namespace ipu::bindings
