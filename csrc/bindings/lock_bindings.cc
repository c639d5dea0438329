// Locks of Python objects. Whoever waits for one is told who does not let go, instead of waiting without end.
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "frontends/torch/capture/capture.h"
#include "python/interpreter_lock.h"
#include "python/wait_lock.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;

py::object hold_for_capture(python::WaitLock& l, const py::object& f) {
  OwnedLock::Hold held(l.lock);
  struct Watch {
    OwnedLock& lock;
    explicit Watch(OwnedLock& l) : lock(l) { lock.watch(&tf::Capture::steps()); }
    ~Watch() { lock.watch(nullptr); }
  } watch(l.lock);
  return f();
}

}  // namespace

void define_locks(py::module_& m) {
  set_wait_hooks({&python::wait_outside, &python::interrupted});
  py::class_<python::WaitLock>(
      m, "WaitLock", "A lock, which its holder may take again. Error instead of a wait without end.")
      .def(py::init<std::string>(), py::arg("what"))
      .def("hold", &python::hold, py::arg("f"), "f(*args, **kwargs) with the lock.")
      .def("hold_for_capture", &hold_for_capture, py::arg("f"),
           "f() with the lock; others wait only while a capture goes on.")
      .def(
          "is_held", [](const python::WaitLock& l) { return l.lock.is_held(); }, "By whatever thread.")
      .def("__reduce__",  // a copy of what is locked has a lock of its own
           [](const python::WaitLock& l) {
             return py::make_tuple(py::type::of<python::WaitLock>(), py::make_tuple(l.what));
           });
}

}  // namespace ipu::bindings
