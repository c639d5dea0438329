// Plain Python data as what the core takes: errors name the thing and what it must be.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "support/attributes.h"

namespace ipu::bindings {

// Error(kTypeMismatch): "wrong kind of data: `what` must be `wanted`."
[[noreturn]] void wrong_data(const std::string& what, const char* wanted);

template <typename T>
T read(const pybind11::handle& value, const std::string& what, const char* wanted) {
  try {
    return value.cast<T>();
  } catch (const pybind11::cast_error&) {
    wrong_data(what, wanted);
  }
}

ConstantPtr constant_of(const pybind11::handle& value, const std::string& what);
// Converts a boolean, number, string, array, or list of numbers, strings or shapes, which become strings as "[2,3]". An empty
// list becomes a list of integers.
Attribute attribute_of(const pybind11::handle& value, const std::string& what);
// None where Python has nothing like it.
pybind11::object to_python(const Attribute& attribute);

}  // namespace ipu::bindings
