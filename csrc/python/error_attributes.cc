#include "python/error_attributes.h"

#include "support/foreign_text.h"

namespace ipu::python {
namespace {

namespace py = pybind11;

py::object value_of(const std::string& text) { return py::str(printable(text)); }
py::object value_of(int64_t number) { return py::int_(number); }

void set(py::handle of, const std::string& type, py::object code, const std::string& reason,
         py::dict parameters) {
  of.attr("type") = type;
  of.attr("code") = std::move(code);
  of.attr("reason") = reason;
  of.attr("parameters") = std::move(parameters);
}

}  // namespace

void define_error_attributes(PyObject* error_class) { set(error_class, "", py::none(), "", {}); }

void set_error_attributes(py::handle exception, const Error& error) {
  py::dict parameters;
  for (const auto& [name, value] : error.parameters())
    parameters[name.c_str()] = std::visit([](const auto& v) { return value_of(v); }, value);
  set(exception, error.type(), py::int_(static_cast<int>(error.code())), error.reason(),
      std::move(parameters));
}

}  // namespace ipu::python
