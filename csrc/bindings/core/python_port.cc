#include "bindings/core/python_port.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>

#include <cstring>

#include "bindings/core/numpy_arrays.h"
#include "python/interpreter_lock.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

// A Python object that may be let go on any thread.
std::shared_ptr<py::object> held(py::object object) {
  return {new py::object(std::move(object)), [](py::object* of) {
            python::InsideInterpreter inside;
            delete of;
          }};
}

template <typename Work>
void call(const std::string& stream, PythonFailure& failure, Work work) {
  python::InsideInterpreter inside;
  try {
    work();
  } catch (const py::error_already_set& error) {
    failure.keep(std::current_exception());
    throw Error(ErrorCode::kExecution, fmt::format("the function of stream '{}' raised {}", stream,
                                                   std::string(py::str(error.type().attr("__name__")))));
  }
}

}  // namespace

void PythonFailure::keep(std::exception_ptr raised) {
  std::lock_guard lock(mutex_);
  if (first_ == nullptr) first_ = std::move(raised);
}

std::exception_ptr PythonFailure::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(first_, nullptr);
}

std::shared_ptr<emulator::StreamPort> python_port(const program::Stream& stream, py::object function,
                                                  std::shared_ptr<PythonFailure> failure) {
  const std::string name = stream.name;
  const DType dtype = stream.host_dtype;
  const Shape shape = stream.spec.shape;
  std::shared_ptr<py::object> f = held(std::move(function));
  if (stream.is_input())
    return std::make_shared<emulator::FunctionPort>(
        emulator::FunctionPort::Give([=](int replica, std::span<std::byte> element) {
          bool is_given = false;
          call(name, *failure, [&] {
            const py::object value = (*f)(replica);
            if (value.is_none()) return;
            is_given = true;
            const py::array array =
                plain_array(fmt::format("the function of stream '{}'", name), value, dtype, shape);
            if (!element.empty()) std::memcpy(element.data(), array.data(), element.size());
          });
          return is_given;
        }));
  return std::make_shared<emulator::FunctionPort>(
      emulator::FunctionPort::Take([=](int replica, std::span<const std::byte> element) {
        call(name, *failure, [&] {
          py::array array(numpy_type(dtype), shape);
          if (!element.empty()) std::memcpy(array.mutable_data(), element.data(), element.size());
          (*f)(array, replica);
        });
      }));
}

}  // namespace ipu::bindings
