#include "bindings/subscripts.h"

#include <torch/csrc/autograd/python_variable.h>

#include "frontends/torch/capture/capture.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

// Guarded by the interpreter lock, as all of this is. torch.Tensor inherits the slots of its base class, which stays.
PyMappingMethods torchs;
py::object& getter() {
  static auto* function = new py::object();  // outlives the interpreter
  return *function;
}
py::object& setter() {
  static auto* function = new py::object();
  return *function;
}

bool has_tensor_bound(PyObject* part) {
  if (!PySlice_Check(part)) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(part);
  return THPVariable_Check(slice->start) || THPVariable_Check(slice->stop);
}

bool is_ours(PyObject* index) {
  if (!PyTuple_Check(index) && !PySlice_Check(index)) return false;
  if (frontends::torch_frontend::Capture::current() == nullptr) return false;
  if (!PyTuple_Check(index)) return has_tensor_bound(index);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i)
    if (has_tensor_bound(PyTuple_GET_ITEM(index, i))) return true;
  return false;
}

PyObject* subscript(PyObject* self, PyObject* index) {
  if (!is_ours(index)) return torchs.mp_subscript(self, index);
  const py::object function = getter();
  return PyObject_CallFunctionObjArgs(function.ptr(), self, index, nullptr);
}

int assign_subscript(PyObject* self, PyObject* index, PyObject* value) {
  if (value == nullptr || !is_ours(index)) return torchs.mp_ass_subscript(self, index, value);
  const py::object function = setter();
  PyObject* none = PyObject_CallFunctionObjArgs(function.ptr(), self, index, value, nullptr);
  Py_XDECREF(none);
  return none == nullptr ? -1 : 0;
}

// In `kind` and the classes below it, wherever a slot is `from`. What a class defines in Python stays.
void exchange(PyTypeObject* kind, const PyMappingMethods& from, const PyMappingMethods& to) {
  if (PyMappingMethods* slots = kind->tp_as_mapping; slots != nullptr) {
    if (slots->mp_subscript == from.mp_subscript) slots->mp_subscript = to.mp_subscript;
    if (slots->mp_ass_subscript == from.mp_ass_subscript) slots->mp_ass_subscript = to.mp_ass_subscript;
  }
  if (kind->tp_subclasses == nullptr) return;  // a dict of weak references
  PyObject *key = nullptr, *reference = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(kind->tp_subclasses, &at, &key, &reference);) {
    PyObject* member = PyWeakref_GetObject(reference);  // borrowed
    if (member != nullptr && PyType_Check(member))
      exchange(reinterpret_cast<PyTypeObject*>(member), from, to);
  }
}

const PyMappingMethods ours{
    .mp_length = nullptr, .mp_subscript = &subscript, .mp_ass_subscript = &assign_subscript};

PyTypeObject* tensor_class() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }

}  // namespace

void watch_subscripts(const py::object& get, const py::object& set) {
  torchs = *tensor_class()->tp_base->tp_as_mapping;
  getter() = get;
  setter() = set;
  exchange(tensor_class(), torchs, ours);
}

void leave_subscripts() { exchange(tensor_class(), ours, torchs); }

}  // namespace ipu::bindings
