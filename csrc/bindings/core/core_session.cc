#include "bindings/core/core_session.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/seed_stream.h"
#include "optimizers/optimizer.h"
#include "python/error_attributes.h"
#include "support/interruption.h"

namespace ipu::bindings {

namespace {

runtime::ServedStreams served_streams(const program::Program& program, const optimizers::Spec& optimizer) {
  runtime::ServedStreams served;
  served.hypers = runtime::hyper_streams(program, optimizer);
  for (size_t s = 0; s < program.streams.size(); ++s) {
    if (program.streams[s].name == ir::kSeedStream) served.seed = static_cast<int>(s);
    if (program.streams[s].name == ir::kRoundingSeedStream) served.rounding_seed = static_cast<int>(s);
  }
  return served;
}

}  // namespace

CoreSession::CoreSession(executable::Executable executable, const optimizers::Spec* optimizer)
    : CoreSession(
          executable,
          optimizer == nullptr ? runtime::ServedStreams() : served_streams(*executable.program, *optimizer),
          optimizer == nullptr ? optimizers::Spec() : *optimizer) {}

CoreSession::CoreSession(executable::Executable executable, const runtime::ServedStreams& served,
                         optimizers::Spec optimizer)
    : session_(std::move(executable), served, std::move(optimizer)), program_(*session_.program()) {
  session_.set_interrupted(&interrupted);
  bound_.resize(program_.streams.size());
  for (const int seed : {served.seed, served.rounding_seed})
    if (seed >= 0) has_random_ = served_.insert(seed).second;
  for (const auto& hyper : served.hypers) served_.insert(hyper.stream);
}

py::dict CoreSession::streams(const std::string& entry_name) const {
  const int entry = session_.find_entry(entry_name);
  py::dict result;
  for (size_t s = 0; s < program_.streams.size(); ++s) {
    const program::Stream& stream = program_.streams[s];
    if (!session_.elements(entry)[s].is_used() || is_served(s)) continue;
    result[py::str(stream.name)] =
        py::make_tuple(stream.is_input() ? "input" : "output", numpy_type(stream.host_dtype),
                       py::tuple(py::cast(shape(s, count(entry, s)))));
  }
  return result;
}

py::dict CoreSession::variables() const {
  py::dict result;
  for (const program::Variable& v : program_.variables)
    result[py::str(v.name)] =
        py::make_tuple(numpy_type(v.spec.dtype), py::tuple(py::cast(session_.variables().host_shape(v))));
  return result;
}

py::array CoreSession::read(const std::string& name) {
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

void CoreSession::write(const std::string& name, const py::object& value) {
  const program::Variable& v = variable(name);
  const Shape shape = session_.variables().host_shape(v);
  py::array array = plain_array("variable " + name, value, v.spec.dtype, shape);
  const runtime::ConstHostView view{
      v.spec.dtype,
      shape,
      {static_cast<const std::byte*>(array.data()), static_cast<size_t>(array.nbytes())}};
  without_gil([&] { Session::Access(session_, "writing a variable").write(v, view); });
}

void CoreSession::bind(const std::string& name, const py::object& value, bool wrap) {
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
    port->bind_for_good(static_cast<std::byte*>(const_cast<void*>(array.data())), elements_of(array, stream),
                        wrap ? emulator::AtEnd::kWrap : emulator::AtEnd::kStop);
    next.port = std::move(port);
  }
  // A run may have the old one: it ends first.
  without_gil([&] { Session::Call(session_).bind(static_cast<int>(s), next.port); });
  bound_[s] = std::move(next);
}

py::dict CoreSession::run(const std::map<std::string, py::object>& inputs, const std::string& entry_name,
                          const std::map<std::string, py::object>& outputs_in_place) {
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
    if (!session_.elements(entry)[s].is_used() || is_served(s)) continue;
    auto given = inputs.find(stream.name);
    if (given == inputs.end() && bound_[s].port != nullptr) continue;
    if (stream.is_input()) {
      if (given == inputs.end())
        throw Error(ErrorCode::kTypeMismatch,
                    fmt::format("input {} is missing: it takes {} of {}", stream.name,
                                to_string(shape(s, count(entry, s))), to_string(stream.host_dtype)));
      arrays.push_back(input_array(s, entry, given->second));
    } else if (const auto place = outputs_in_place.find(stream.name); place != outputs_in_place.end()) {
      arrays.push_back(output_array(s, entry, place->second));
    } else {
      arrays.emplace_back(numpy_type(stream.host_dtype), shape(s, count(entry, s)));
      outputs[py::str(stream.name)] = arrays.back();
    }
    // The engine only reads inputs.
    bindings.push_back({static_cast<int>(s), static_cast<std::byte*>(const_cast<void*>(arrays.back().data())),
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

std::span<std::byte> CoreSession::bytes_of(py::array& array) {
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.nbytes())};
}

Shape CoreSession::shape(size_t stream, int64_t elements) const {
  Shape shape = program_.streams[stream].spec.shape;
  if (elements != 1) shape.insert(shape.begin(), elements);
  return shape;
}

int64_t CoreSession::elements_of(const py::array& array, const program::Stream& stream) {
  const Shape given = shape_of(array), &one = stream.spec.shape;
  if (given == one) return 1;
  if (given.size() == one.size() + 1 && std::equal(one.begin(), one.end(), given.begin() + 1))
    return given[0];
  throw Error(ErrorCode::kTypeMismatch, fmt::format("Shape mismatch: stream {} takes elements of {}, got {}",
                                                    stream.name, to_string(one), to_string(given)));
}

py::array CoreSession::input_array(size_t s, int entry, const py::object& value) const {
  const program::Stream& stream = program_.streams[s];
  const std::string what = "input " + stream.name;
  if (session_.elements(entry)[s].is_exact())
    return plain_array(what, value, stream.host_dtype, shape(s, count(entry, s)));
  return typed_array(what, value, stream.host_dtype);
}

py::array CoreSession::output_array(size_t s, int entry, const py::object& value) const {
  const program::Stream& stream = program_.streams[s];
  py::array array = input_array(s, entry, value);
  if (array.ptr() != value.ptr() || !array.writeable())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("output {} is filled in place: it takes a NumPy array that is C-contiguous and can "
                    "be written",
                    stream.name));
  return array;
}

void CoreSession::keep_filled(int s, int entry, int64_t filled, py::dict& outputs) const {
  const program::Stream& stream = program_.streams[s];
  if (!outputs.contains(stream.name)) return;  // the caller's
  if (stream.is_input() || session_.elements(entry)[s].is_exact() || count(entry, s) == 1) return;
  const py::str name(stream.name);
  outputs[name] = py::object(outputs[name])[py::slice(0, filled, 1)];
}

void CoreSession::raise_python_failure(const Error& error) {
  const std::exception_ptr raised = failure_->take();
  if (raised == nullptr) return;
  try {
    std::rethrow_exception(raised);
  } catch (py::error_already_set& cause) {
    if (!cause.matches(PyExc_Exception)) throw;
    set_core_error(error);
    const py::error_already_set told;
    PyException_SetCause(told.value().ptr(), py::object(cause.value()).release().ptr());
    throw told;
  }
}

size_t CoreSession::find_stream(const std::string& name) const {
  for (size_t s = 0; s < program_.streams.size(); ++s)
    if (program_.streams[s].name == name) return s;
  throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no stream {}", name));
}

const program::Variable& CoreSession::variable(const std::string& name) const {
  const program::Variable* found = session_.variables().find(name);
  if (found == nullptr)
    throw Error(ErrorCode::kExecution, fmt::format("the program has no variable {}", name));
  return *found;
}

void CoreSession::require_input(const std::string& name, int entry, const std::string& entry_name) const {
  for (size_t s = 0; s < program_.streams.size(); ++s) {
    if (program_.streams[s].name != name || !program_.streams[s].is_input()) continue;
    if (session_.elements(entry)[s].is_used()) return;
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("entry point {} does not read input {}", entry_name, name));
  }
  throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no input {}", name));
}

PyObject*& core_error_class() {
  static PyObject* error_class = nullptr;
  return error_class;
}

void set_core_error(const Error& error) {
  const auto made = py::reinterpret_steal<py::object>(
      PyObject_CallFunction(core_error_class(), "s", error.message().c_str()));
  if (!made) return;  // the call set its own error
  python::set_error_attributes(made, error);
  PyErr_SetObject(core_error_class(), made.ptr());
}

std::unique_ptr<CoreSession> compiled(const std::function<std::unique_ptr<ir::Module>()>& make,
                                      const executable::CompileOptions& options,
                                      const executable::CacheOptions& cache, const runtime::RunSettings& run,
                                      const optimizers::Spec* optimizer) {
  executable::Executable executable = without_gil([&] {
    Interruptible scope(&interrupted);
    std::unique_ptr<ir::Module> module = make();
    return executable::compile_cached(*module, run.device.system(), options, cache);
  });
  auto session = std::make_unique<CoreSession>(std::move(executable), optimizer);
  session->session().configure(run);
  return session;
}

}  // namespace ipu::bindings
