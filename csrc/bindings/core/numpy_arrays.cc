#include "bindings/core/numpy_arrays.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

constexpr std::pair<DType, const char*> kNumpyNames[] = {{DType::kF32, "float32"},
                                                         {DType::kF16, "float16"},
                                                         {DType::kF64, "float64"},
                                                         {DType::kI32, "int32"},
                                                         {DType::kU32, "uint32"},
                                                         {DType::kI16, "int16"},
                                                         {DType::kU16, "uint16"},
                                                         {DType::kI8, "int8"},
                                                         {DType::kU8, "uint8"},
                                                         {DType::kI64, "int64"},
                                                         {DType::kBool, "bool"},
                                                         // Their codes. A NumPy array of uint8 is one of u8.
                                                         {DType::kF8_143, "uint8"},
                                                         {DType::kF8_152, "uint8"}};

}  // namespace

py::dtype numpy_type(DType dtype) {
  for (const auto& [known, name] : kNumpyNames)
    if (known == dtype) return py::dtype(name);
  throw Error(ErrorCode::kTypeMismatch, fmt::format("unsupported type: NumPy has no {}", to_string(dtype)));
}

DType dtype_of(const py::dtype& type, const std::string& what) {
  for (const auto& [known, name] : kNumpyNames)
    if (type.equal(py::dtype(name))) return known;
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
