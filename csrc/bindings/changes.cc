// Changes to Python objects that are undone whatever is raised wherever. Python can raise between any two
// instructions of Python code (a signal's handler, another thread, a tracer), in `finally` and `__exit__`
// too; it cannot raise inside native code. So making a change and noting how to undo it is one native call,
// and what undoes them all is native code around the Python code that makes them.
#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/subscripts.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

constexpr int kAttempts = 1000;  // for functions in Python, each of which may be broken off

class Changes {
 public:
  ~Changes() { std::erase(running, this); }

  // Calls `body()`, then undoes all changes, newest first; those for failures only when it raised.
  py::object run(const py::object& body) {
    IPU_CHECK(std::find(running.begin(), running.end(), this) == running.end(),
              "changes are made in one run at a time");
    thread_ = std::this_thread::get_id();
    running.push_back(this);
    py::object result = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(body.ptr()));
    PyObject *kind = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&kind, &value, &trace);
    // What goes out of use is let go at the end: that may run Python.
    const std::vector<Change> done = std::exchange(changes_, {});
    std::vector<py::object> out_of_use;
    for (const py::object& function : std::exchange(on_failure_, {}))
      if (!result && !py::reinterpret_steal<py::object>(PyObject_CallNoArgs(function.ptr()))) PyErr_Clear();
    for (size_t i = done.size(); i-- > 0;) undo(done[i], !result, out_of_use);
    // Another thread may fork while these run: until they are done, its child calls them too.
    for (const py::object& function : std::vector<py::object>(at_end_)) {
      py::object failure = call_through(function);
      if (!failure || !result) continue;
      result = py::object();
      kind = reinterpret_cast<PyObject*>(Py_TYPE(failure.ptr()));
      Py_INCREF(kind);
      value = failure.release().ptr();
      trace = PyException_GetTraceback(value);
    }
    at_end_.clear();
    std::erase(running, this);
    if (result) return result;
    PyErr_Restore(kind, value, trace);
    throw py::error_already_set();
  }

  // In a forked child: undoes what threads had changed that are not in it.
  static void undo_of_lost_threads() {
    for (Changes* changes : std::vector<Changes*>(running)) {
      if (changes->thread_ == std::this_thread::get_id()) continue;
      std::erase(running, changes);
      const std::vector<Change> done = std::exchange(changes->changes_, {});
      std::vector<py::object> out_of_use;
      for (size_t i = done.size(); i-- > 0;) undo(done[i], true, out_of_use);
      for (const py::object& function : std::exchange(changes->at_end_, {})) call_through(function);
    }
  }

  // owner.name = value, in the owner's own dict; `owner` is a class, a module, or an object whose attributes
  // are native (threading.local).
  void replace(const py::object& owner, const py::str& name, const py::object& value) {
    Change change{.kind = Kind::kEntry, .owner = owner, .name = name};
    change.old = entry_of(owner, name);
    change.made = value;
    changes_.push_back(std::move(change));
    if (!set_entry(owner, name, value)) throw py::error_already_set();
  }

  // Exchanges what two tensors are.
  void swap(const py::object& a, const py::object& b) {
    swap_contents(a, b);
    changes_.push_back({.kind = Kind::kSwap, .owner = a, .old = b});
  }

  void set_class(const py::object& object, const py::object& kind) {
    Change change{.kind = Kind::kClass, .owner = object};
    change.old = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
    changes_.push_back(std::move(change));
    if (!set_class_of(object, kind)) throw py::error_already_set();
  }

  // As the function of the same name in subscripts.h.
  void watch_subscripts(const py::object& get, const py::object& set) {
    changes_.push_back({.kind = Kind::kSubscripts});
    bindings::watch_subscripts(get, set);
  }

  // The entries of these names are as now when the body raises.
  void keep_on_failure(const py::dict& dict, const py::list& names) {
    py::dict old;
    for (const py::handle& name : names)
      if (dict.contains(name)) old[name] = dict[name];
    changes_.push_back({.kind = Kind::kDict, .owner = dict, .name = names, .old = old});
  }

  // A native function that is called when the body raises, before anything is undone.
  void call_on_failure(const py::object& function) { on_failure_.push_back(function); }

  // A function in Python for the end, always; called again when something breaks it off, so twice is as once.
  void at_end(const py::object& function) { at_end_.push_back(function); }

 private:
  enum class Kind : int { kEntry, kSwap, kClass, kSubscripts, kDict };
  struct Change {
    Kind kind;
    py::object owner = {}, name = {}, old = {}, made = {};
  };

  // nullptr: the object keeps its entries in another way.
  static PyObject* dict_of(const py::object& owner) {
    if (PyModule_Check(owner.ptr())) return PyModule_GetDict(owner.ptr());
    return PyType_Check(owner.ptr()) ? reinterpret_cast<PyTypeObject*>(owner.ptr())->tp_dict : nullptr;
  }

  static py::object entry_of(const py::object& owner, const py::object& name) {
    PyObject* dict = dict_of(owner);
    if (dict != nullptr) return py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(dict, name.ptr()));
    auto value = py::reinterpret_steal<py::object>(PyObject_GetAttr(owner.ptr(), name.ptr()));
    if (!value) PyErr_Clear();
    return value;
  }

  // Not setattr: metaclasses and modules may have one in Python. A value that is not there removes the entry.
  static bool set_entry(const py::object& owner, const py::object& name, const py::object& value) {
    if (PyType_Check(owner.ptr())) return PyType_Type.tp_setattro(owner.ptr(), name.ptr(), value.ptr()) == 0;
    PyObject* dict = dict_of(owner);
    if (dict == nullptr) return PyObject_SetAttr(owner.ptr(), name.ptr(), value.ptr()) == 0;
    return (value ? PyDict_SetItem(dict, name.ptr(), value.ptr()) : PyDict_DelItem(dict, name.ptr())) == 0;
  }

  static bool set_class_of(const py::object& object, const py::object& kind) {
    static PyObject* name = PyUnicode_InternFromString("__class__");
    return PyObject_GenericSetAttr(object.ptr(), name, kind.ptr()) == 0;
  }

  // As torch._C._swap_tensor_impl, which refuses tensors that somebody refers to weakly, as profilers do: they refer
  // to what a tensor is, and that is put back.
  static void swap_contents(const py::object& a, const py::object& b) {
    if (!THPVariable_Check(a.ptr()) || !THPVariable_Check(b.ptr()))
      throw py::type_error("swap needs two tensors");
    at::Tensor& of_a = reinterpret_cast<THPVariable*>(a.ptr())->cdata;
    at::Tensor& of_b = reinterpret_cast<THPVariable*>(b.ptr())->cdata;
    std::swap(of_a, of_b);
    take_over(of_a, a.ptr(), b.ptr());
    take_over(of_b, b.ptr(), a.ptr());
  }

  // What `tensor` refers to belongs to object `now` from here on. While others share it, it keeps its object alive.
  static void take_over(const at::Tensor& tensor, PyObject* now, PyObject* before) {
    tensor.unsafeGetTensorImpl()->pyobj_slot()->store_pyobj(now);
    if (tensor.use_count() < 2) return;
    Py_INCREF(now);
    Py_DECREF(before);
  }

  // Runs no Python.
  static void undo(const Change& change, bool failed, std::vector<py::object>& out_of_use) {
    bool good = true;
    switch (change.kind) {
      case Kind::kEntry:
        // What the body or another thread has assigned since is theirs, and stays.
        if (entry_of(change.owner, change.name).is(change.made))
          good = set_entry(change.owner, change.name, change.old);
        break;
      case Kind::kSwap:
        try {
          swap_contents(change.owner, change.old);
        } catch (py::error_already_set& e) {
          e.discard_as_unraisable("undoing a capture");
        }
        break;
      case Kind::kClass:
        good = set_class_of(change.owner, change.old);
        break;
      case Kind::kSubscripts:
        leave_subscripts();
        break;
      case Kind::kDict:
        if (!failed) break;
        for (const py::handle& name : change.name) {
          PyObject* now = PyDict_GetItemWithError(change.owner.ptr(), name.ptr());
          if (now == nullptr) continue;
          out_of_use.push_back(py::reinterpret_borrow<py::object>(now));
          PyDict_DelItem(change.owner.ptr(), name.ptr());
        }
        good = PyDict_Update(change.owner.ptr(), change.old.ptr()) == 0;
        break;
    }
    if (!good) PyErr_Clear();  // there is nobody to tell
  }

  // Calls a function in Python until it comes to its end. What broke it off, or nothing.
  static py::object call_through(const py::object& function) {
    py::object failure;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto result = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(function.ptr()));
      if (result) break;
      PyObject *kind = nullptr, *value = nullptr, *trace = nullptr;
      PyErr_Fetch(&kind, &value, &trace);
      PyErr_NormalizeException(&kind, &value, &trace);
      if (trace != nullptr) PyException_SetTraceback(value, trace);
      if (!failure) failure = py::reinterpret_borrow<py::object>(value);
      Py_XDECREF(kind);
      Py_XDECREF(value);
      Py_XDECREF(trace);
    }
    return failure;
  }

  std::vector<Change> changes_;
  std::vector<py::object> on_failure_, at_end_;
  std::thread::id thread_;
  inline static std::vector<Changes*> running;  // guarded by the interpreter lock, as all of this is
};

}  // namespace

// f(*args, **kwargs) while functions of torch do not ask subclasses of tensors. A `with` in Python may be
// broken off between its beginning and its block, and then never ends.
py::object without_torch_function(const py::object& f, const py::tuple& args, const py::dict& kwargs) {
  using Tls = at::impl::PythonTorchFunctionTLS;
  struct Off {
    at::impl::TorchFunctionDisabledState before = Tls::get_disabled_state();
    Off() { Tls::set_disabled_state(at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED); }
    ~Off() { Tls::set_disabled_state(before); }
  } off;
  return f(*args, **kwargs);
}

void define_changes(py::module_& m) {
  m.def("without_torch_function", &without_torch_function, py::arg("f"), py::arg("args"), py::arg("kwargs"),
        "f(*args, **kwargs) while functions of torch do not ask subclasses of tensors.");
  py::class_<Changes>(m, "Changes")
      .def(py::init<>())
      .def("run", &Changes::run, py::arg("body"))
      .def("replace", &Changes::replace, py::arg("owner"), py::arg("name"), py::arg("value"))
      .def("swap", &Changes::swap, py::arg("a"), py::arg("b"))
      .def("set_class", &Changes::set_class, py::arg("object"), py::arg("kind"))
      .def("watch_subscripts", &Changes::watch_subscripts, py::arg("get"), py::arg("set"))
      .def("keep_on_failure", &Changes::keep_on_failure, py::arg("dict"), py::arg("names"))
      .def("call_on_failure", &Changes::call_on_failure, py::arg("function"))
      .def("at_end", &Changes::at_end, py::arg("function"));
  py::dict hooks;
  hooks["after_in_child"] = py::cpp_function(&Changes::undo_of_lost_threads);
  py::module_::import("os").attr("register_at_fork")(**hooks);
}

}  // namespace ipu::bindings
