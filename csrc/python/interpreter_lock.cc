#include "python/interpreter_lock.h"

namespace ipu::python {

bool interrupted() {
  InsideInterpreter inside;
  return PyErr_CheckSignals() != 0;
}

void wait_outside(const std::function<void()>& wait) {
  if (PyGILState_Check() == 0) return wait();
  OutsideInterpreter outside;
  wait();
}

}  // namespace ipu::python
