// The dict of `Options.toDict()`, parsed as compilation does: each entry checked and logged.
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "frontends/torch/executor/popart_options.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;

std::string type_name(const py::handle& value) { return Py_TYPE(value.ptr())->tp_name; }

bool is_text(const py::handle& value) { return PyUnicode_Check(value.ptr()) != 0; }

// Numbers as numbers, also members of enumerations.
std::string text_of(const py::handle& value) {
  if (PyBool_Check(value.ptr()) != 0) return value.ptr() == Py_True ? "true" : "false";
  if (PyLong_Check(value.ptr()) != 0) return py::str(py::int_(py::reinterpret_borrow<py::object>(value)));
  return py::str(value);
}

void check_members(const std::string& name, const py::object& members, bool numbers) {
  for (const py::handle& member : members)
    if (!is_text(member) && !(numbers && PyLong_Check(member.ptr()) != 0))
      throw Error(ErrorCode::kOption, "unknown value type: the container given to _Popart.set(\"" + name +
                                          "\", ...) has a member of type " + type_name(member) +
                                          "; members are str");
}

tf::PopartKind kind_of(const std::string& name, const py::handle& value) {
  if (PyBool_Check(value.ptr()) != 0) return tf::PopartKind::kBool;
  if (PyLong_Check(value.ptr()) != 0) return tf::PopartKind::kInteger;
  if (PyFloat_Check(value.ptr()) != 0) return tf::PopartKind::kReal;
  if (is_text(value)) return tf::PopartKind::kText;
  if (PyDict_Check(value.ptr()) != 0 || PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0 ||
      PyAnySet_Check(value.ptr()) != 0)
    return tf::PopartKind::kContainer;
  throw Error(ErrorCode::kOption, "unknown value type: _Popart.set(\"" + name +
                                      "\", ...) got a value of type " + type_name(value) +
                                      "; bool, float, int, str, list, tuple, set and dict are possible");
}

void parse_patterns(const py::dict& options) {
  const py::object patterns = options["patterns"];
  if (!options.contains("patterns_level"))
    throw Error(ErrorCode::kOption,
                "incomplete options: patterns without patterns_level; _Popart.setPatterns sets both");
  if (!py::isinstance<py::dict>(patterns))
    throw Error(ErrorCode::kOption, "unexpected value of an option: patterns got a value of type " +
                                        type_name(patterns) + " and takes a dict from str to bool");
  for (const auto& [name, on] : py::cast<py::dict>(patterns)) {
    if (!is_text(name) || PyBool_Check(on.ptr()) == 0)
      throw Error(ErrorCode::kOption,
                  "unexpected value of an option: patterns takes a dict from str to bool");
    tf::check_pattern(name.cast<std::string>(), on.ptr() == Py_True);
  }
}

void parse_container(const std::string& name, const py::handle& value) {
  const bool logs = log_enabled(LogLevel::kDebug);
  const std::string options = "poptorch.Options ";
  if (PyDict_Check(value.ptr()) != 0) {
    if (!tf::is_general_option(name)) check_members(name, value.attr("values")(), false);
    if (logs)
      for (const auto& [key, member] : py::cast<py::dict>(value))
        log(LogLevel::kDebug, options + "set " + name + "[" + text_of(key) + "] to " + text_of(member));
    return;
  }
  check_members(name, py::reinterpret_borrow<py::object>(value), true);
  if (!logs) return;
  for (const py::handle& member : value)
    log(LogLevel::kDebug, options + "added " + text_of(member) + " to " + name);
}

void parse_options(const py::dict& options) {
  for (const auto& [key, value] : options) {
    if (!is_text(key))
      throw Error(ErrorCode::kOption,
                  "unknown back-end option: a name of type " + type_name(key) + "; names are str");
    const auto name = key.cast<std::string>();
    // These are read where they are used.
    if (name == "anchored_tensors" ||
        (name == "compilation_progress_bar_fn" && PyCallable_Check(value.ptr())))
      continue;
    const tf::PopartKind kind = kind_of(name, value);
    tf::check_option(name, kind);
    if (kind == tf::PopartKind::kContainer) {
      parse_container(name, value);
      continue;
    }
    if (kind == tf::PopartKind::kInteger) {
      int overflow = 0;  // a number of any length: -1 then, which is no value of an enumeration either
      const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
      tf::check_value(name, number);
      if (name == "patterns_level") tf::check_pattern_level(number);
    }
    if (log_enabled(LogLevel::kDebug))
      log(LogLevel::kDebug, "poptorch.Options set " + name + " to value " + text_of(value));
  }
  if (options.contains("patterns")) parse_patterns(options);
}

}  // namespace

void define_options(py::module_& m) {
  m.def("_validateOptions", &parse_options,
        "Parses a dict of Options.toDict() as compilation does; Error for a name, a type or a value that is "
        "not known.");
  m.def(
      "is_general_option", [](const std::string& name) { return tf::is_general_option(name); },
      "Whether poptorch.Options has an option of that name: _Popart.set does not take it.");
}

}  // namespace ipu::bindings
