// A Python function as the end of a stream: called with the interpreter's lock for every element, on the
// thread that runs the IPU.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <mutex>

#include "emulator/streams/function_port.h"
#include "program/program.h"

namespace ipu::bindings {

// What a function raised first in a run. The run ends with an Error that says so; the exception itself is
// kept here.
class PythonFailure {
 public:
  void keep(std::exception_ptr raised);
  // nullptr: nothing was raised.
  std::exception_ptr take();

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// An input's function gives f(replica) -> array of one element, or None at the end; an output's takes
// f(array, replica).
std::shared_ptr<emulator::StreamPort> python_port(const program::Stream& stream, pybind11::object function,
                                                  std::shared_ptr<PythonFailure> failure);

}  // namespace ipu::bindings
