// Calls of native code without the interpreter lock, for functions and methods that pybind11 binds.
#pragma once

#include <pybind11/pybind11.h>

#include <type_traits>

#include "python/interpreter_lock.h"

namespace ipu::python {

// `work()` without the interpreter lock. A signal that was noticed meanwhile is raised even when the work is
// complete.
template <typename Work>
auto without_gil(Work work) {
  namespace py = pybind11;
  auto raise_signal = [] {
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  };
  using Result = decltype(work());
  if constexpr (std::is_void_v<Result>) {
    {
      OutsideInterpreter outside;
      work();
    }
    raise_signal();
  } else {
    auto result = [&] {
      OutsideInterpreter outside;
      return work();
    }();
    raise_signal();
    return result;
  }
}

// A method called without the interpreter lock, for pybind11. Every method that may wait or take long is
// bound so. One that is not still cannot stop the program: OwnedLock leaves the interpreter before it waits.
template <typename Class, typename Result, typename... Arguments>
auto unlocked(Result (Class::*method)(Arguments...)) {
  return [method](Class& self, std::decay_t<Arguments>... arguments) {
    return without_gil([&]() -> Result { return (self.*method)(arguments...); });
  };
}

}  // namespace ipu::python
