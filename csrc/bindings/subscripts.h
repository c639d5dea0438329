// x[...] of tensors while a model is captured, for bounds of slices that are tensors.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace ipu::bindings {

// In the thread that captures, `x[index]` becomes `get(x, index)`, and `x[index] = value` becomes
// `set(x, index, value)`, where a slice of the index has a tensor as a bound. Everything else, and all of it in
// other threads, is torch's. Only slots of torch's classes are exchanged: their dictionaries stay, and so do
// the slots that Python would fill in for a class with a `__getitem__` in Python.
void watch_subscripts(const pybind11::object& get, const pybind11::object& set);

// The slots are torch's again, also in classes that have been made meanwhile. Runs no Python.
void leave_subscripts();

}  // namespace ipu::bindings
