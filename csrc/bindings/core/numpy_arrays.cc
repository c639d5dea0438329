#include "bindings/core/numpy_arrays.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

// By number: a name would be looked up by NumPy each time.
using Npy = py::detail::npy_api;
constexpr int kHalf = 23;
constexpr std::pair<DType, int> kNumpyTypes[] = {{DType::kF32, Npy::NPY_FLOAT_},
                                                 {DType::kF16, kHalf},
                                                 {DType::kF64, Npy::NPY_DOUBLE_},
                                                 {DType::kI32, Npy::NPY_INT_},
                                                 {DType::kU32, Npy::NPY_UINT_},
                                                 {DType::kI16, Npy::NPY_SHORT_},
                                                 {DType::kU16, Npy::NPY_USHORT_},
                                                 {DType::kI8, Npy::NPY_BYTE_},
                                                 {DType::kU8, Npy::NPY_UBYTE_},
                                                 {DType::kI64, Npy::NPY_LONG_},
                                                 {DType::kBool, Npy::NPY_BOOL_},
                                                 // Their codes. A NumPy array of uint8 is one of u8.
                                                 {DType::kF8_143, Npy::NPY_UBYTE_},
                                                 {DType::kF8_152, Npy::NPY_UBYTE_}};

}  // namespace

py::dtype numpy_type(DType dtype) {
  for (const auto& [known, number] : kNumpyTypes)
    if (known == dtype) return py::dtype(number);
  throw Error(ErrorCode::kTypeMismatch, fmt::format("unsupported type: NumPy has no {}", to_string(dtype)));
}

DType dtype_of(const py::dtype& type, const std::string& what) {
  for (const auto& [known, number] : kNumpyTypes)
    if (type.equal(py::dtype(number))) return known;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unsupported type: {} is {}", what, std::string(py::str(type))));
}

Shape shape_of(const py::array& array) { return {array.shape(), array.shape() + array.ndim()}; }

py::array typed_array(const std::string& what, const py::object& value, DType dtype) {
  py::array array = py::array::ensure(value, py::array::c_style);
  if (!array) {
    PyErr_Clear();
    throw Error(ErrorCode::kTypeMismatch, fmt::format("{} takes a NumPy array", what));
  }
  const py::dtype wanted = numpy_type(dtype);
  if (!array.dtype().is(wanted) && !array.dtype().equal(wanted))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Data type mismatch: {} takes {}, got {}", what, std::string(py::str(wanted)),
                            std::string(py::str(array.dtype()))));
  return array;
}

py::array plain_array(const std::string& what, const py::object& value, DType dtype, const Shape& shape) {
  py::array array = typed_array(what, value, dtype);
  if (const Shape given = shape_of(array); given != shape)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Shape mismatch: {} takes {}, got {}", what, to_string(shape), to_string(given)));
  return array;
}

}  // namespace ipu::bindings
