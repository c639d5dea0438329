#include "bindings/python_errors.h"

#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "frontends/torch/errors.h"
#include "python/error_attributes.h"
#include "python/interpreter_lock.h"
#include "support/device_error.h"
#include "support/foreign_text.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;

PyObject *error_class, *recoverable_class, *unrecoverable_class;
constexpr int64_t kMaxLineBreaks = 80;

// A message of many lines goes to a file; what remains is its first line and where the rest is.
std::string shortened(const std::string& message) {
  if (std::count(message.begin(), message.end(), '\n') <= kMaxLineBreaks) return message;
  constexpr const char* kLog = "poptorch_error.log";
  std::error_code failure;
  if (std::filesystem::exists(kLog, failure) && !std::filesystem::is_regular_file(kLog, failure))
    return message;
  std::ofstream log(kLog);
  log << message << '\n';
  log.close();
  if (!log) return message;  // a folder that cannot be written
  return message.substr(0, message.find('\n')) + "\nThe whole message is in poptorch_error.log";
}

std::string folder_of(const char* module) {
  const std::string file = py::str(py::module_::import(module).attr("__file__"));
  return file.substr(0, file.rfind('/') + 1);
}

// "file.py:12" of the innermost Python frame outside poptorch and torch: the user's call that failed. The
// outermost frame when all are inside, "poptorch:0" on a thread that runs no Python.
std::string calling_line() {
  std::string found = "poptorch:0";
  try {
    const std::string inside[] = {folder_of("poptorch.poptorch_core"), folder_of("torch")};
    py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    while (frame) {
      auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
      const py::object code =
          py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
      const std::string file = py::str(code.attr("co_filename"));
      found = file + ":" + std::to_string(PyFrame_GetLineNumber(raw));
      if (std::none_of(std::begin(inside), std::end(inside),
                       [&](const std::string& folder) { return file.rfind(folder, 0) == 0; })) {
        return found;
      }
      frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
    }
  } catch (const py::error_already_set&) {  // while the interpreter shuts down
  }
  return found;
}

// `In <file>:<line>: '<type>': <message>`, the page about it, the recovery action, the context stack.
std::string text_form(const std::string& line, const std::string& type, const std::string& message,
                      const std::string& page, const std::string& action, const std::string& location) {
  std::string text = "In " + (line.empty() ? calling_line() : line) + ": '" + type + "': " + message;
  if (!page.empty()) text += "\n  read:     " + page;
  if (!action.empty()) text += "\nRecovery action required: " + action;
  if (!location.empty()) text += "\nError raised in:\n" + location;
  return text;
}

std::string stack_text(const std::vector<std::string>& context) {
  std::string text;
  for (size_t i = 0; i < context.size(); ++i) {
    text += (i == 0 ? "  [" : "\n  [") + std::to_string(i) + "] " + context[i];
  }
  return text;
}

// Whatever bytes a message quotes, Python gets a text it can read and print.
void set_error(PyObject* kind, const std::string& user_line, const std::string& type,
               const std::string& whole_message, const std::string& page, const std::string& action,
               const std::string& context, const Error* native = nullptr) {
  const std::string message = shortened(printable(whole_message)), line = printable(user_line),
                    location = printable(context);
  py::object error = py::reinterpret_steal<py::object>(
      PyObject_CallFunction(kind, "s", text_form(line, type, message, page, action, location).c_str()));
  if (!error) return;  // the call set its own error
  error.attr("message") = message;
  error.attr("type") = type;
  error.attr("location") = location;
  if (!action.empty()) error.attr("recovery_action") = action;
  if (native != nullptr) python::set_error_attributes(error, *native);
  PyErr_SetObject(kind, error.ptr());
}

[[noreturn]] void raise_in_torch(const Error& error) {
  python_error carried;
  {
    python::InsideInterpreter inside;
    set_python_error(error);
    carried.persist();
  }
  throw carried;
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& e) {
    // What a signal handler raised says more than that the work was interrupted.
    if (PyErr_Occurred() == nullptr) set_python_error(e);
  } catch (python_error& e) {
    e.restore();
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(std::current_exception());
  } catch (const std::out_of_range& e) {
    set_error(error_class, "", "std::out_of_range", e.what(), "", "", "");
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "poptorch: out of host memory");
  } catch (const py::builtin_exception&) {
    throw;
  } catch (const py::error_already_set&) {
    throw;
  } catch (const std::exception& e) {
    set_error(error_class, "", "std::exception", e.what(), "", "", "");
  }
}

PyObject* new_class(py::module_& m, const char* name, const char* doc, PyObject* base) {
  std::string qualified = std::string("poptorch.poptorch_core.") + name;
  PyObject* kind = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
  if (kind == nullptr) throw py::error_already_set();
  m.add_object(name, py::reinterpret_borrow<py::object>(kind));
  return kind;
}

}  // namespace

void set_python_error(const Error& raised) {
  const Error e = frontends::torch_frontend::in_words_of_poptorch(raised);
  const std::string page = "docs/errors/E" + std::to_string(static_cast<int>(e.code())) + ".md";
  PyObject* kind = error_class;
  std::string action;
  if (const auto* fault = dynamic_cast<const DeviceError*>(&raised)) {
    kind = fault->recoverable() ? recoverable_class : unrecoverable_class;
    action = fault->recovery_action();
  }
  set_error(kind, e.user_line(), e.type(), e.message(), page, action, stack_text(e.context()), &e);
}

void throw_python_error(const char* kind, const std::string& message, const std::string& type,
                        const std::string& recovery_action, const std::string& context) {
  PyObject* c = error_class;
  if (std::string(kind) == "recoverable") c = recoverable_class;
  if (std::string(kind) == "unrecoverable") c = unrecoverable_class;
  set_error(c, "", type, message, "", recovery_action, context);
  throw py::error_already_set();
}

void define_errors(py::module_& m) {
  error_class =
      new_class(m, "Error",
                "An application error found by poptorch or the layers below. Attributes: message (without "
                "context), type (component), location (context stack).",
                PyExc_Exception);
  for (const char* name : {"message", "location"})
    PyObject_SetAttrString(error_class, name, py::str("").ptr());
  python::define_error_attributes(error_class);
  recoverable_class =
      new_class(m, "RecoverableError",
                "A transient system error; recovery_action says what makes it usable again.", error_class);
  PyObject_SetAttrString(recoverable_class, "recovery_action", py::str("").ptr());
  unrecoverable_class = new_class(
      m, "UnrecoverableError", "A persistent hardware error: take the system out of service.", error_class);
  py::register_local_exception_translator(&translate);
  frontends::torch_frontend::set_raise_function(&raise_in_torch);
}

}  // namespace ipu::bindings
