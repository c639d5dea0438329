// The lock of the Python interpreter, for native code of both Python modules: leaving it, entering it, and
// asking for signals. While a program ends, Python ends every thread that comes back to it (pthread_exit), in
// the middle of native code whose frames cannot be left so: the process would abort. Here such a thread
// sleeps until the process is gone.
#pragma once

#include <Python.h>
// First: Python's own headers.
#include <cxxabi.h>
#include <unistd.h>

#include <functional>

namespace ipu::python {

template <typename Enter>
void enter_or_sleep(Enter enter) {
  try {
    enter();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// For a thread that has the interpreter lock: is without it for the time of the object.
class OutsideInterpreter {
 public:
  OutsideInterpreter() : state_(PyEval_SaveThread()) {}
  ~OutsideInterpreter() {
    enter_or_sleep([&] { PyEval_RestoreThread(state_); });
  }
  OutsideInterpreter(const OutsideInterpreter&) = delete;
  OutsideInterpreter& operator=(const OutsideInterpreter&) = delete;

 private:
  PyThreadState* state_;
};

// For any thread: has the interpreter lock for the time of the object.
class InsideInterpreter {
 public:
  InsideInterpreter() {
    enter_or_sleep([&] { state_ = PyGILState_Ensure(); });
  }
  ~InsideInterpreter() { PyGILState_Release(state_); }
  InsideInterpreter(const InsideInterpreter&) = delete;
  InsideInterpreter& operator=(const InsideInterpreter&) = delete;

 private:
  PyGILState_STATE state_{};
};

// Has the user pressed Ctrl-C? For native code that runs without the interpreter lock; Python's error is set
// then.
bool interrupted();

// A wait for a lock of ours, without the interpreter lock if this thread has it: the holder may need it to go
// on.
void wait_outside(const std::function<void()>& wait);

}  // namespace ipu::python
