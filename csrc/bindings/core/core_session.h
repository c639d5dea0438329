// A session of a compiled program and the streams of it by name, as Python uses it.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/core/numpy_arrays.h"
#include "bindings/core/python_port.h"
#include "emulator/streams/array_port.h"
#include "executable/cache/cache.h"
#include "executable/compile.h"
#include "ir/module.h"
#include "python/interpreter_lock.h"
#include "python/without_lock.h"
#include "runtime/host/host_session.h"
#include "support/error.h"

namespace ipu::bindings {

namespace py = pybind11;
using python::interrupted;
using python::without_gil;
using runtime::Session;

PyObject*& core_error_class();  // ipu_core.Error
// Sets the Python error indicator; the caller holds the GIL.
void set_core_error(const Error& error);

// One session, and the streams of its program by name.
class __attribute__((visibility("hidden"))) CoreSession {  // holds types of pybind11, which are hidden
 public:
  // `optimizer`: the session itself serves the streams of its values, and that of the seed; nullptr: the caller does.
  CoreSession(executable::Executable executable, const optimizers::Spec* optimizer);

  Session& session() { return host_.session(); }
  const std::shared_ptr<PythonFailure>& failure() const { return failure_; }

  std::vector<std::string> entry_points() const { return host_.program().entry_points; }

  py::dict streams(const std::string& entry_name) const;

  py::dict variables() const;

  py::array read(const std::string& name);

  void write(const std::string& name, const py::object& value);

  // For all runs to come.
  void bind(const std::string& name, const py::object& value, bool wrap);

  // `outputs`: arrays that are filled in place, by name; arrays of the others are made.
  py::dict run(const std::map<std::string, py::object>& inputs, const std::string& entry_name,
               const std::map<std::string, py::object>& outputs = {});

  // A part of an array: (array, scalars before it, times each element is given) and (array, scalars before it).
  using Feed = std::tuple<py::object, int64_t, int64_t>;
  using Fetch = std::tuple<py::object, int64_t>;
  // Arrays of the stream's type or of its wide one, from a scalar on and around again.
  void run_parts(const std::map<std::string, Feed>& inputs, const std::string& entry_name,
                 const std::map<std::string, Fetch>& outputs);

  // (array, entry of each replica, shards of an entry), as runtime/host/host_variable.h says.
  using Value = std::tuple<py::object, std::vector<int64_t>, int64_t>;
  void upload(const std::map<std::string, Value>& values);
  void download(const std::map<std::string, Value>& values);

  // Whether a run draws random numbers: only then does it depend on the seed.
  bool has_random() const { return host_.draws_numbers(); }
  const executable::Executable& executable() const { return host_.session().executable(); }

 private:
  // Error(kTypeMismatch) when the array does not consist of elements of the stream.
  static int64_t elements_of(const py::array& array, const program::Stream& stream);

  // As many elements as the run takes; any number where values decide about that.
  py::array input_array(int stream, int entry, const py::object& value) const;

  // Without the interpreter's lock. What a function of a stream raised is the cause of an error.
  template <typename Work>
  void with_cause(Work work);

  void require_input(const std::string& name, int entry, const std::string& entry_name) const;

  std::shared_ptr<PythonFailure> failure_ = std::make_shared<PythonFailure>();
  runtime::HostSession host_;
  std::vector<py::object> read_for_good_;  // by stream: the array that a port reads
};

// A session of the module that `make` gives; made and compiled without the interpreter's lock.
std::unique_ptr<CoreSession> compiled(const std::function<std::unique_ptr<ir::Module>()>& make,
                                      const executable::CompileOptions& options,
                                      const executable::CacheOptions& cache = {},
                                      const runtime::RunSettings& run = {},
                                      const optimizers::Spec* optimizer = nullptr);

}  // namespace ipu::bindings
