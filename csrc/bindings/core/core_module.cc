// Python module ipu_core._native: IR text to a session, and arrays in and out of it. Without torch.
#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <optional>

#include "bindings/core/interpreter_binding.h"
#include "bindings/core/numpy_arrays.h"
#include "bindings/core/python_port.h"
#include "bindings/core/records_binding.h"
#include "emulator/streams/array_port.h"
#include "executable/compile.h"
#include "ir/text/text.h"
#include "ops/definition/importers.h"
#include "ops/verify.h"
#include "python/interpreter_lock.h"
#include "python/without_lock.h"
#include "runtime/session.h"
#include "support/error.h"
#include "support/interruption.h"
#include "support/owned_lock.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using python::interrupted;
using python::without_gil;
using runtime::Session;

PyObject* error_class = nullptr;

// One session, and the streams of its program by name.
class CoreSession {
 public:
  explicit CoreSession(executable::Executable executable)
      : session_(std::move(executable), {}, {}), program_(*session_.program()) {
    session_.set_interrupted(&interrupted);
    bound_.resize(program_.streams.size());
  }

  Session& session() { return session_; }
  const std::shared_ptr<PythonFailure>& failure() const { return failure_; }

  std::vector<std::string> entry_points() const { return program_.entry_points; }

  py::dict streams(const std::string& entry_name) const {
    const int entry = session_.find_entry(entry_name);
    py::dict result;
    for (size_t s = 0; s < program_.streams.size(); ++s) {
      const program::Stream& stream = program_.streams[s];
      if (!session_.elements(entry)[s].is_used()) continue;
      result[py::str(stream.name)] =
          py::make_tuple(stream.is_input() ? "input" : "output", numpy_type(stream.host_dtype),
                         py::tuple(py::cast(shape(s, count(entry, s)))));
    }
    return result;
  }

  py::dict variables() const {
    py::dict result;
    for (const program::Variable& v : program_.variables)
      result[py::str(v.name)] =
          py::make_tuple(numpy_type(v.spec.dtype), py::tuple(py::cast(session_.variables().host_shape(v))));
    return result;
  }

  py::array read(const std::string& name) {
    const program::Variable& v = variable(name);
    const Shape shape = session_.variables().host_shape(v);
    py::array array(numpy_type(v.spec.dtype), shape);
    const runtime::HostView view{v.spec.dtype, shape, bytes_of(array)};
    try {
      without_gil([&] { Session::Access(session_, "reading a variable").read(v, view); });
    } catch (const Error& error) {  // shards of other processes are exchanged
      raise_python_failure(error);
      throw;
    }
    return array;
  }

  void write(const std::string& name, const py::object& value) {
    const program::Variable& v = variable(name);
    const Shape shape = session_.variables().host_shape(v);
    py::array array = plain_array("variable " + name, value, v.spec.dtype, shape);
    const runtime::ConstHostView view{
        v.spec.dtype,
        shape,
        {static_cast<const std::byte*>(array.data()), static_cast<size_t>(array.nbytes())}};
    without_gil([&] { Session::Access(session_, "writing a variable").write(v, view); });
  }

  // For all runs to come.
  void bind(const std::string& name, const py::object& value, bool wrap) {
    const size_t s = find_stream(name);
    const program::Stream& stream = program_.streams[s];
    Bound next;
    if (PyCallable_Check(value.ptr()) != 0) {
      if (wrap)
        throw Error(ErrorCode::kTypeMismatch,
                    fmt::format("stream {} cannot wrap: a function goes on as long as it gives", name));
      next.port = python_port(stream, value, failure_);
    } else if (!value.is_none()) {
      if (!stream.is_input())
        throw Error(ErrorCode::kTypeMismatch,
                    fmt::format("output {} takes a function, or None: run() gives arrays of outputs", name));
      const py::array array = typed_array("input " + name, value, stream.host_dtype);
      next.array = array;
      auto port = std::make_shared<emulator::ArrayPort>();
      port->bind_for_good(static_cast<std::byte*>(const_cast<void*>(array.data())),
                          elements_of(array, stream), wrap ? emulator::AtEnd::kWrap : emulator::AtEnd::kStop);
      next.port = std::move(port);
    }
    // A run may have the old one: it ends first.
    without_gil([&] { Session::Call(session_).bind(static_cast<int>(s), next.port); });
    bound_[s] = std::move(next);
  }

  py::dict run(const std::map<std::string, py::object>& inputs, const std::string& entry_name) {
    const int entry = session_.find_entry(entry_name);
    for (const auto& [name, value] : inputs) require_input(name, entry, entry_name);
    struct Array {
      int stream;
      std::byte* data;
      int64_t elements;
    };
    std::vector<py::array> arrays;
    std::vector<Array> bindings;
    py::dict outputs;
    for (size_t s = 0; s < program_.streams.size(); ++s) {
      const program::Stream& stream = program_.streams[s];
      if (!session_.elements(entry)[s].is_used()) continue;
      auto given = inputs.find(stream.name);
      if (given == inputs.end() && bound_[s].port != nullptr) continue;
      if (stream.is_input()) {
        if (given == inputs.end())
          throw Error(ErrorCode::kTypeMismatch,
                      fmt::format("input {} is missing: it takes {} of {}", stream.name,
                                  to_string(shape(s, count(entry, s))), to_string(stream.host_dtype)));
        arrays.push_back(input_array(s, entry, given->second));
      } else {
        arrays.emplace_back(numpy_type(stream.host_dtype), shape(s, count(entry, s)));
        outputs[py::str(stream.name)] = arrays.back();
      }
      // The engine only reads inputs.
      bindings.push_back({static_cast<int>(s),
                          static_cast<std::byte*>(const_cast<void*>(arrays.back().data())),
                          elements_of(arrays.back(), stream)});
    }
    if (!session_.is_attached()) without_gil([&] { session_.attach(); });
    try {
      without_gil([&] {
        Session::Call call(session_);
        for (const Array& array : bindings) call.bind(array.stream, array.data, array.elements);
        call.run(entry);
        for (Array& array : bindings) array.elements = call.filled(array.stream);
      });
    } catch (const Error& error) {
      raise_python_failure(error);
      throw;
    }
    for (const Array& array : bindings) keep_filled(array.stream, entry, array.elements, outputs);
    return outputs;
  }

 private:
  struct Bound {  // for all runs
    std::shared_ptr<emulator::StreamPort> port;
    py::object array;  // that the port reads
  };

  static std::span<std::byte> bytes_of(py::array& array) {
    return {static_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.nbytes())};
  }

  int64_t count(int entry, size_t stream) const { return session_.elements(entry)[stream].count(); }

  // Of several elements: one element as it is, else with a dimension in front.
  Shape shape(size_t stream, int64_t elements) const {
    Shape shape = program_.streams[stream].spec.shape;
    if (elements != 1) shape.insert(shape.begin(), elements);
    return shape;
  }

  // Error(kTypeMismatch) when the array does not consist of elements of the stream.
  static int64_t elements_of(const py::array& array, const program::Stream& stream) {
    const Shape given = shape_of(array), &one = stream.spec.shape;
    if (given == one) return 1;
    if (given.size() == one.size() + 1 && std::equal(one.begin(), one.end(), given.begin() + 1))
      return given[0];
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Shape mismatch: stream {} takes elements of {}, got {}", stream.name,
                            to_string(one), to_string(given)));
  }

  // As many elements as the run takes; any number where values decide about that.
  py::array input_array(size_t s, int entry, const py::object& value) const {
    const program::Stream& stream = program_.streams[s];
    const std::string what = "input " + stream.name;
    if (session_.elements(entry)[s].is_exact())
      return plain_array(what, value, stream.host_dtype, shape(s, count(entry, s)));
    return typed_array(what, value, stream.host_dtype);
  }

  // Of an output whose number of elements was not known before, what the run gave.
  void keep_filled(int s, int entry, int64_t filled, py::dict& outputs) const {
    const program::Stream& stream = program_.streams[s];
    if (stream.is_input() || session_.elements(entry)[s].is_exact() || count(entry, s) == 1) return;
    const py::str name(stream.name);
    outputs[name] = py::object(outputs[name])[py::slice(0, filled, 1)];
  }

  // What a function of a stream raised, as the cause of `error`; an exception that is no Exception, as it is.
  void raise_python_failure(const Error& error) {
    const std::exception_ptr raised = failure_->take();
    if (raised == nullptr) return;
    try {
      std::rethrow_exception(raised);
    } catch (py::error_already_set& cause) {
      if (!cause.matches(PyExc_Exception)) throw;
      py::raise_from(cause, error_class, error.message().c_str());
      throw py::error_already_set();
    }
  }

  size_t find_stream(const std::string& name) const {
    for (size_t s = 0; s < program_.streams.size(); ++s)
      if (program_.streams[s].name == name) return s;
    throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no stream {}", name));
  }

  const program::Variable& variable(const std::string& name) const {
    const program::Variable* found = session_.variables().find(name);
    if (found == nullptr)
      throw Error(ErrorCode::kExecution, fmt::format("the program has no variable {}", name));
    return *found;
  }

  void require_input(const std::string& name, int entry, const std::string& entry_name) const {
    for (size_t s = 0; s < program_.streams.size(); ++s) {
      if (program_.streams[s].name != name || !program_.streams[s].is_input()) continue;
      if (session_.elements(entry)[s].is_used()) return;
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("entry point {} does not read input {}", entry_name, name));
    }
    throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no input {}", name));
  }

  std::shared_ptr<PythonFailure> failure_ = std::make_shared<PythonFailure>();
  Session session_;
  const program::Program& program_;
  std::vector<Bound> bound_;  // by stream
};

// What decides about the program of a text; of records the step options do too.
executable::CompileOptions compile_options(int replicas, int processes = 1) {
  executable::CompileOptions options;
  options.replicas = replicas;
  options.processes = processes;
  return options;
}

// A session of the module that `make` gives; made and compiled without the interpreter's lock.
std::unique_ptr<CoreSession> compiled(const std::function<std::unique_ptr<ir::Module>()>& make,
                                      const executable::CompileOptions& options) {
  executable::Executable executable = without_gil([&] {
    Interruptible scope(&interrupted);
    std::unique_ptr<ir::Module> module = make();
    return executable::compile(*module, target::attached_system(), options);
  });
  return std::make_unique<CoreSession>(std::move(executable));
}

// `exchange` is called by the thread that runs the device; what it raises comes out of the run.
void set_job(CoreSession& session, int first_replica, py::object exchange) {
  if (exchange.is_none()) return session.session().set_job(first_replica, nullptr);
  std::shared_ptr<py::object> function(new py::object(std::move(exchange)), [](py::object* f) {
    python::InsideInterpreter inside;
    delete f;
  });
  auto failure = session.failure();
  session.session().set_job(first_replica, [function, failure](std::vector<std::byte> mine) {
    python::InsideInterpreter inside;
    try {
      const py::bytes all = (*function)(py::bytes(reinterpret_cast<const char*>(mine.data()), mine.size()));
      const std::string_view view = all;
      const auto* begin = reinterpret_cast<const std::byte*>(view.data());
      return std::vector<std::byte>(begin, begin + view.size());
    } catch (const py::error_already_set&) {
      failure->keep(std::current_exception());
      throw Error(ErrorCode::kExecution, "exchange between processes failed");
    }
  });
}

std::unique_ptr<CoreSession> compile(const std::string& text, const std::string& source, int replicas,
                                     int processes) {
  return compiled([&] { return ir::parse(text, source); }, compile_options(replicas, processes));
}

std::unique_ptr<CoreSession> compile_model(const py::dict& model, const py::dict& program) {
  RecordsProgram made = program_of_records(model, program);
  return compiled([&] { return std::move(made.module); }, compile_options(made.replicas));
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& e) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(error_class, e.message().c_str());
  }
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "Native part of ipu_core.";
  set_wait_hooks({&python::wait_outside, &interrupted});
  error_class = PyErr_NewExceptionWithDoc(
      "ipu_core.Error", "What the compiler, the device or a check found wrong.", PyExc_RuntimeError, nullptr);
  m.add_object("Error", py::reinterpret_borrow<py::object>(error_class));
  py::register_local_exception_translator(&translate);
  py::class_<CoreSession>(m, "Session", "A compiled program on a device.")
      .def("attach", [](CoreSession& s) { without_gil([&] { s.session().attach(); }); })
      .def("detach", [](CoreSession& s) { without_gil([&] { s.session().detach(); }); })
      .def_property_readonly("is_attached", [](CoreSession& s) { return s.session().is_attached(); })
      .def_property_readonly("first_ipu",
                             [](CoreSession& s) {
                               const int first = s.session().first_ipu();
                               return first < 0 ? std::optional<int>() : first;
                             })
      .def_property_readonly("ipus", [](CoreSession& s) { return s.session().executable().ipus_reserved; })
      .def_property_readonly("entry_points", &CoreSession::entry_points)
      .def("streams", &CoreSession::streams, py::arg("entry") = "main",
           "Those that a run of the entry point moves: name -> (\"input\" or \"output\", dtype, shape in one "
           "run). Where values decide how many elements there are, the shape is that of the most.")
      .def("variables", &CoreSession::variables, "name -> (dtype, shape on the host)")
      .def("read", &CoreSession::read, py::arg("variable"), "Value of a variable, as an array.")
      .def("write", &CoreSession::write, py::arg("variable"), py::arg("value"))
      .def(
          "bind", &CoreSession::bind, py::arg("stream"), py::arg("value"), py::arg("wrap") = false,
          "What stands behind a stream in all runs to come in which run() is not given it: an array of which "
          "each run takes the next elements (`wrap`: from the front again, after the last), a function, or "
          "None for neither. A function of an input gives f(replica) -> array, or None at the end; one of an "
          "output takes f(array, replica), for every element, whatever the output's mode.")
      .def("run", &CoreSession::run, py::arg("inputs") = std::map<std::string, py::object>(),
           py::arg("entry") = "main",
           "Runs an entry point once; arrays of the outputs that are not bound, by name. Attaches if needed.")
      .def(
          "set_job", &set_job, py::arg("first_replica"), py::arg("exchange"),
          "Before attaching, in each process of a job: the number of this one's first replica in the job, and "
          "what connects the processes. exchange(bytes) gives the bytes of all processes, one after another in "
          "their order, for those of this one; all call it in the same order.")
      .def(
          "ir_text", [](CoreSession& s) { return s.session().executable().ir_text; },
          "The IR after all passes, as this computer runs it.")
      .def(
          "machine_text",
          [](CoreSession& s) { return without_gil([&] { return s.session().executable().machine_text(); }); },
          "The IR as the machine runs it, the same on every computer: ops whole, planned recomputation carried out, "
          "stages, rings and copies between IPUs.")
      .def("program_text", [](CoreSession& s) { return s.session().program_text(); });
  bind_interpreter(m);
  m.def("compile", &compile, py::arg("text"), py::arg("source"), py::arg("replicas"), py::arg("processes"));
  m.def("compile_model", &compile_model, py::arg("model"), py::arg("program"));
  m.def("model_text", [](const py::dict& model, const py::dict& program) {
    return ir::print(*program_of_records(model, program).module);
  });
  m.def("importers", [](const std::string& domain) {
    py::list list;
    for (const ops::Importer* importer : ops::all_importers())
      if (importer->domain == ops::canonical_domain(domain) &&
          std::holds_alternative<ops::NodeImporter>(importer->import))
        list.append(py::make_tuple(importer->type, importer->versions.since, importer->versions.until));
    return list;
  });
}

}  // namespace ipu::bindings
