// The lock of something in Python, with the rules of support/owned_lock.h, for both Python modules. It is held around a call
// of native code: between the lines of a `with` in Python something may be raised, which would leave the lock taken for ever.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "support/owned_lock.h"

namespace ipu::python {

struct WaitLock {
  explicit WaitLock(std::string name)
      : what(std::move(name)), lock(what.c_str(), OwnedLock::Again::kAllowed, OwnedLock::InChild::kFree) {}
  const std::string what;
  OwnedLock lock;
};

// f(*args, **kwargs) with the lock.
inline pybind11::object hold(WaitLock& l, const pybind11::object& f, const pybind11::args& args,
                             const pybind11::kwargs& kwargs) {
  OwnedLock::Hold held(l.lock);
  return f(*args, **kwargs);
}

}  // namespace ipu::python
