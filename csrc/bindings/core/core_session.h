// A session of a compiled program and the streams of it by name, as Python uses it.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bindings/core/numpy_arrays.h"
#include "bindings/core/python_port.h"
#include "emulator/streams/array_port.h"
#include "executable/cache/cache.h"
#include "executable/compile.h"
#include "ir/module.h"
#include "python/interpreter_lock.h"
#include "python/without_lock.h"
#include "runtime/session.h"
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

  Session& session() { return session_; }
  const std::shared_ptr<PythonFailure>& failure() const { return failure_; }

  std::vector<std::string> entry_points() const { return program_.entry_points; }

  py::dict streams(const std::string& entry_name) const;

  py::dict variables() const;

  py::array read(const std::string& name);

  void write(const std::string& name, const py::object& value);

  // For all runs to come.
  void bind(const std::string& name, const py::object& value, bool wrap);

  // `outputs`: arrays that are filled in place, by name; arrays of the others are made.
  py::dict run(const std::map<std::string, py::object>& inputs, const std::string& entry_name,
               const std::map<std::string, py::object>& outputs = {});

  // Whether a run draws random numbers: only then does it depend on the seed.
  bool has_random() const { return has_random_; }
  const executable::Executable& executable() const { return session_.executable(); }

 private:
  CoreSession(executable::Executable executable, const runtime::ServedStreams& served,
              optimizers::Spec optimizer);

  struct Bound {  // for all runs
    std::shared_ptr<emulator::StreamPort> port;
    py::object array;  // that the port reads
  };

  bool is_served(size_t stream) const { return served_.contains(static_cast<int>(stream)); }

  static std::span<std::byte> bytes_of(py::array& array);

  int64_t count(int entry, size_t stream) const { return session_.elements(entry)[stream].count(); }

  // Returns the shape of an array of `elements` elements: that of the element if there is one, else a dimension is
  // added in front.
  Shape shape(size_t stream, int64_t elements) const;

  // Error(kTypeMismatch) when the array does not consist of elements of the stream.
  static int64_t elements_of(const py::array& array, const program::Stream& stream);

  // As many elements as the run takes; any number where values decide about that.
  py::array input_array(size_t s, int entry, const py::object& value) const;

  // Cuts an output whose number of elements was not known before the run to the elements that the run wrote.
  void keep_filled(int s, int entry, int64_t filled, py::dict& outputs) const;

  // What a function of a stream raised, as the cause of `error`; an exception that is no Exception, as it is.
  void raise_python_failure(const Error& error);

  size_t find_stream(const std::string& name) const;

  const program::Variable& variable(const std::string& name) const;

  // The caller's array of an output, as it is. Error(kTypeMismatch) when the run cannot fill it.
  py::array output_array(size_t s, int entry, const py::object& value) const;

  void require_input(const std::string& name, int entry, const std::string& entry_name) const;

  std::shared_ptr<PythonFailure> failure_ = std::make_shared<PythonFailure>();
  std::set<int> served_;  // streams that the session binds itself
  bool has_random_ = false;
  Session session_;
  const program::Program& program_;
  std::vector<Bound> bound_;  // by stream
};

// A session of the module that `make` gives; made and compiled without the interpreter's lock.
std::unique_ptr<CoreSession> compiled(const std::function<std::unique_ptr<ir::Module>()>& make,
                                      const executable::CompileOptions& options,
                                      const executable::CacheOptions& cache = {},
                                      const runtime::RunSettings& run = {},
                                      const optimizers::Spec* optimizer = nullptr);

}  // namespace ipu::bindings
