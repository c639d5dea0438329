// NumPy arrays at the edge of a program: types, and checks that cast nothing.
#pragma once

#include <pybind11/numpy.h>

#include <string>

#include "support/dtype.h"
#include "support/shape.h"

namespace ipu::bindings {

// Error(kTypeMismatch) for types NumPy does not have.
pybind11::dtype numpy_type(DType dtype);

// Error(kTypeMismatch) for types the program cannot have; `what` is what messages call the array.
DType dtype_of(const pybind11::dtype& type, const std::string& what);

// The value as a C-contiguous array of the type; Error(kTypeMismatch) instead of a cast. `what` is what
// messages call it.
pybind11::array typed_array(const std::string& what, const pybind11::object& value, DType dtype);
// The same of exactly this shape.
pybind11::array plain_array(const std::string& what, const pybind11::object& value, DType dtype,
                            const Shape& shape);

Shape shape_of(const pybind11::array& array);

}  // namespace ipu::bindings
