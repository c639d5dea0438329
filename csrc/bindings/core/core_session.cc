#include "bindings/core/core_session.h"

#include <fmt/core.h>

#include <algorithm>

#include "optimizers/optimizer.h"
#include "python/error_attributes.h"
#include "runtime/host/host_variable.h"
#include "support/error_category.h"
#include "support/interruption.h"

namespace ipu::bindings {
namespace {

std::span<std::byte> bytes_of(py::array& array) {
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.nbytes())};
}

std::span<const std::byte> bytes_of(const py::array& array) {
  return {static_cast<const std::byte*>(array.data()), static_cast<size_t>(array.nbytes())};
}

// What an array is for values of `device`: codes of a type that NumPy lacks have one of one byte that a package made up.
DType host_type(const std::string& what, const py::array& array, DType device) {
  const py::dtype given = array.dtype(), plain = numpy_type(device);
  if (given.is(plain) || given.equal(plain)) return device;
  if (given.kind() == 'V' && given.itemsize() == 1 && plain.equal(py::dtype("uint8"))) return device;
  if (device == DType::kU32 && given.equal(py::dtype("uint64"))) return DType::kI64;
  const DType other = dtype_of(given, what);
  if (device == DType::kU32 || other == device)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Data type mismatch: {} takes {}, got {}", what, std::string(py::str(plain)),
                            std::string(py::str(given))));
  return other;
}

py::array c_array(const std::string& what, const py::object& value) {
  py::array array = py::array::ensure(value, py::array::c_style);
  if (array) return array;
  PyErr_Clear();
  throw Error(ErrorCode::kTypeMismatch, fmt::format("{} takes a NumPy array", what));
}

Error not_a_place(const std::string& what) {
  return Error(
      ErrorCode::kTypeMismatch,
      fmt::format("{} is filled in place: it takes a NumPy array that is C-contiguous and can be written",
                  what));
}

// The caller's array itself, to be filled.
py::array place(const std::string& what, const py::object& value) {
  if (!py::isinstance<py::array>(value)) throw not_a_place(what);
  auto array = py::reinterpret_borrow<py::array>(value);
  if ((array.flags() & py::array::c_style) == 0 || !array.writeable()) throw not_a_place(what);
  return array;
}

}  // namespace

CoreSession::CoreSession(executable::Executable executable, const optimizers::Spec* optimizer)
    : host_(std::move(executable), optimizer), read_for_good_(host_.program().streams.size()) {
  session().set_interrupted(&interrupted);
}

py::dict CoreSession::streams(const std::string& entry_name) const {
  const int entry = host_.session().find_entry(entry_name);
  py::dict result;
  for (const int s : host_.moved(entry)) {
    const program::Stream& stream = host_.stream(s);
    result[py::str(stream.name)] =
        py::make_tuple(stream.is_input() ? "input" : "output", numpy_type(stream.host_dtype),
                       py::tuple(py::cast(host_.shape(s, host_.count(entry, s)))));
  }
  return result;
}

py::dict CoreSession::variables() const {
  py::dict result;
  for (const program::Variable& v : host_.program().variables)
    result[py::str(v.name)] = py::make_tuple(numpy_type(v.spec.dtype),
                                             py::tuple(py::cast(host_.session().variables().host_shape(v))));
  return result;
}

template <typename Work>
void CoreSession::with_cause(Work work) {
  try {
    without_gil(work);
  } catch (const Error& error) {
    const std::exception_ptr raised = failure_->take();
    if (raised == nullptr) throw;
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
}

py::array CoreSession::read(const std::string& name) {
  const program::Variable& v = host_.variable(name);
  const Shape shape = session().variables().host_shape(v);
  py::array array(numpy_type(v.spec.dtype), shape);
  const runtime::HostView view{v.spec.dtype, shape, bytes_of(array)};
  with_cause([&] { Session::Access(session(), "reading a variable").read(v, view); });
  return array;
}

void CoreSession::write(const std::string& name, const py::object& value) {
  const program::Variable& v = host_.variable(name);
  const Shape shape = session().variables().host_shape(v);
  const py::array array = plain_array("variable " + name, value, v.spec.dtype, shape);
  const runtime::ConstHostView view{v.spec.dtype, shape, bytes_of(array)};
  without_gil([&] { Session::Access(session(), "writing a variable").write(v, view); });
}

void CoreSession::upload(const std::map<std::string, Value>& values) {
  for (const auto& [name, value] : values) {
    const auto& [given, entries, shards] = value;
    const program::Variable& v = host_.variable(name);
    const std::string what = "variable " + name;
    const py::array array = c_array(what, given);
    const runtime::ConstHostVariable from{host_type(what, array, v.spec.dtype), bytes_of(array), entries,
                                          shards};
    without_gil([&] {
      Session::Access device(session(), "writing a variable");
      runtime::upload(device, v, from);
    });
  }
}

void CoreSession::download(const std::map<std::string, Value>& values) {
  for (const auto& [name, value] : values) {
    const auto& [given, entries, shards] = value;
    const program::Variable& v = host_.variable(name);
    const std::string what = "variable " + name;
    py::array array = place(what, given);
    const runtime::HostVariable to{host_type(what, array, v.spec.dtype), bytes_of(array), entries, shards};
    with_cause([&] { runtime::download(Session::Access(session(), "reading a variable"), v, to); });
  }
}

void CoreSession::bind(const std::string& name, const py::object& value, bool wrap) {
  const int number = host_.stream_of(name);
  const program::Stream& stream = host_.stream(number);
  std::shared_ptr<emulator::StreamPort> next;
  py::object read_for_good;
  if (PyCallable_Check(value.ptr()) != 0) {
    if (wrap)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("stream {} cannot wrap: a function goes on as long as it gives", name));
    next = python_port(stream, value, failure_);
  } else if (!value.is_none()) {
    if (!stream.is_input())
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("output {} takes a function, or None: run() gives arrays of outputs", name));
    const py::array array = typed_array("input " + name, value, stream.host_dtype);
    read_for_good = array;
    auto port = std::make_shared<emulator::ArrayPort>();
    port->bind_for_good(static_cast<std::byte*>(const_cast<void*>(array.data())), elements_of(array, stream),
                        wrap ? emulator::AtEnd::kWrap : emulator::AtEnd::kStop);
    next = std::move(port);
  }
  without_gil([&] { host_.bind(number, std::move(next)); });
  read_for_good_[static_cast<size_t>(number)] = std::move(read_for_good);
}

py::dict CoreSession::run(const std::map<std::string, py::object>& inputs, const std::string& entry_name,
                          const std::map<std::string, py::object>& outputs_in_place) {
  const int entry = session().find_entry(entry_name);
  for (const auto& [name, value] : inputs) require_input(name, entry, entry_name);
  runtime::HostRun one(host_, entry);
  std::vector<std::pair<int, py::array>> arrays, made;
  for (const int s : host_.moved(entry)) {
    const program::Stream& stream = host_.stream(s);
    const Shape whole = host_.shape(s, host_.count(entry, s));
    const auto given = inputs.find(stream.name);
    if (given == inputs.end() && host_.is_bound(s)) continue;
    if (stream.is_input()) {
      if (given == inputs.end())
        throw Error(ErrorCode::kTypeMismatch,
                    fmt::format("input {} is missing: it takes {} of {}", stream.name, to_string(whole),
                                to_string(stream.host_dtype)));
      arrays.emplace_back(s, input_array(s, entry, given->second));
    } else if (const auto at = outputs_in_place.find(stream.name); at != outputs_in_place.end()) {
      const py::array array = input_array(s, entry, at->second);
      if (array.ptr() != at->second.ptr() || !array.writeable()) throw not_a_place("output " + stream.name);
      arrays.emplace_back(s, array);
    } else {
      arrays.emplace_back(s, py::array(numpy_type(stream.host_dtype), whole));
      made.push_back(arrays.back());
    }
    // The engine only reads inputs.
    one.bind(s, static_cast<std::byte*>(const_cast<void*>(arrays.back().second.data())),
             elements_of(arrays.back().second, stream));
  }
  with_cause([&] { one.run(); });
  py::dict outputs;
  for (auto& [s, array] : made) {
    const int64_t all = host_.count(entry, s), filled = one.filled(s);
    outputs[py::str(host_.stream(s).name)] =
        filled == all ? std::move(array) : py::object(array[py::slice(0, filled, 1)]);
  }
  return outputs;
}

void CoreSession::run_parts(const std::map<std::string, Feed>& inputs, const std::string& entry_name,
                            const std::map<std::string, Fetch>& outputs) {
  const int entry = session().find_entry(entry_name);
  runtime::HostRun one(host_, entry);
  std::vector<py::array> arrays;
  arrays.reserve(inputs.size() + outputs.size());
  for (const int s : host_.moved(entry)) {
    const program::Stream& stream = host_.stream(s);
    if (const auto feed = inputs.find(stream.name); feed != inputs.end()) {
      const std::string what = "input " + stream.name;
      const auto& [value, begin, repeats] = feed->second;
      arrays.push_back(c_array(what, value));
      one.feed(
          s,
          {host_type(what, arrays.back(), stream.host_dtype), bytes_of(std::as_const(arrays.back())), begin},
          repeats);
    } else if (const auto fetch = outputs.find(stream.name); fetch != outputs.end()) {
      const std::string what = "output " + stream.name;
      arrays.push_back(place(what, std::get<0>(fetch->second)));
      one.fetch(s, {host_type(what, arrays.back(), stream.host_dtype), bytes_of(arrays.back()),
                    std::get<1>(fetch->second)});
    } else if (!stream.is_input() && !host_.is_bound(s)) {  // given to nobody
      arrays.emplace_back(numpy_type(stream.host_dtype), host_.shape(s, host_.count(entry, s)));
      one.bind(s, bytes_of(arrays.back()).data(), host_.count(entry, s));
    }
  }
  with_cause([&] { one.run(); });
}

int64_t CoreSession::elements_of(const py::array& array, const program::Stream& stream) {
  const Shape given = shape_of(array), &one = stream.spec.shape;
  if (given == one) return 1;
  if (given.size() == one.size() + 1 && std::equal(one.begin(), one.end(), given.begin() + 1))
    return given[0];
  throw Error(ErrorCode::kTypeMismatch, fmt::format("Shape mismatch: stream {} takes elements of {}, got {}",
                                                    stream.name, to_string(one), to_string(given)));
}

py::array CoreSession::input_array(int s, int entry, const py::object& value) const {
  const program::Stream& stream = host_.stream(s);
  const std::string what = "input " + stream.name;
  if (host_.session().elements(entry)[static_cast<size_t>(s)].is_exact())
    return plain_array(what, value, stream.host_dtype, host_.shape(s, host_.count(entry, s)));
  return typed_array(what, value, stream.host_dtype);
}

void CoreSession::require_input(const std::string& name, int entry, const std::string& entry_name) const {
  const int found = runtime::find_stream(&host_.program(), name);
  if (found < 0 || !host_.stream(found).is_input())
    throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no input {}", name));
  if (!host_.session().elements(entry)[static_cast<size_t>(found)].is_used())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("entry point {} does not read input {}", entry_name, name));
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
  made.attr("category") = static_cast<int>(category_of(error));
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
