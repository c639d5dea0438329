// What Python programs decide by when the core refuses something: `type`, `code`, `reason` and `parameters` of the
// exception.
#pragma once

#include <pybind11/pybind11.h>

#include "support/error.h"

namespace ipu::python {

// Of errors without a number: code None, nothing in the others.
void define_error_attributes(PyObject* error_class);
void set_error_attributes(pybind11::handle exception, const Error& error);

}  // namespace ipu::python
