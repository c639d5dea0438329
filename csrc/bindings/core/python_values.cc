#include "bindings/core/python_values.h"

#include <fmt/core.h>

#include <type_traits>

#include "bindings/core/numpy_arrays.h"
#include "ir/builder.h"
#include "support/error.h"

namespace ipu::bindings {

namespace py = pybind11;

void wrong_data(const std::string& what, const char* wanted) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("wrong kind of data: {} must be {}.", what, wanted));
}

ConstantPtr constant_of(const py::handle& value, const std::string& what) {
  const py::array array = py::array::ensure(value, py::array::c_style);
  if (!array) {
    PyErr_Clear();
    wrong_data(what, "an array");
  }
  return ir::make_constant(dtype_of(array.dtype(), what), shape_of(array), array.data());
}

namespace {

// A list is one of integers unless it holds something else.
Attribute list_of(const py::sequence& list, const std::string& what) {
  bool has_text = false, has_real = false, has_list = false;
  for (const py::handle& element : list) {
    has_text = has_text || py::isinstance<py::str>(element);
    has_real = has_real || py::isinstance<py::float_>(element);
    has_list = has_list || py::isinstance<py::list>(element) || py::isinstance<py::tuple>(element);
  }
  if (has_list) {
    std::vector<std::string> shapes;
    for (const Shape& shape : read<std::vector<Shape>>(list, what, "shapes, all of them"))
      shapes.push_back(to_string(shape));
    return shapes;
  }
  if (has_text) return read<std::vector<std::string>>(list, what, "strings, all of them");
  if (has_real) return read<std::vector<double>>(list, what, "numbers, all of them");
  return read<std::vector<int64_t>>(list, what, "a list of integers, real numbers or strings");
}

}  // namespace

Attribute attribute_of(const py::handle& value, const std::string& what) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return read<int64_t>(value, what, "an integer of 64 bits");
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (py::isinstance<py::array>(value)) return constant_of(value, what);
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value))
    return list_of(py::reinterpret_borrow<py::sequence>(value), what);
  wrong_data(what, "a number, a string, an array or a list of numbers or strings");
}

py::object to_python(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> py::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, DType>) return py::str(std::string(to_string(value)));
        if constexpr (std::is_same_v<T, Symbol>) return py::str(value.name);
        if constexpr (std::is_same_v<T, ConstantPtr>)
          return py::array(numpy_type(value->dtype), value->shape, value->bytes.data());
        if constexpr (!std::is_same_v<T, DType> && !std::is_same_v<T, Symbol> &&
                      !std::is_same_v<T, ConstantPtr> && !std::is_same_v<T, std::vector<Symbol>>)
          return py::cast(value);
        return py::none();
      },
      attribute);
}

}  // namespace ipu::bindings
