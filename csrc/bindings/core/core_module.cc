// Python module ipu_core._native: IR text to a session, and arrays in and out of it. Without torch.
#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "emulator/host_stream.h"
#include "executable/compile.h"
#include "ir/text/text.h"
#include "ops/verify.h"
#include "runtime/session.h"
#include "support/error.h"
#include "support/interruption.h"
#include "support/owned_lock.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using runtime::Session;

// NumPy's names of the types that cross the edge of a program.
constexpr std::pair<DType, const char*> kNumpyNames[] = {
    {DType::kF32, "float32"}, {DType::kF16, "float16"}, {DType::kF64, "float64"}, {DType::kI32, "int32"},
    {DType::kU32, "uint32"},  {DType::kI16, "int16"},   {DType::kU16, "uint16"},  {DType::kI8, "int8"},
    {DType::kU8, "uint8"},    {DType::kI64, "int64"},   {DType::kBool, "bool"}};

py::dtype numpy_type(DType dtype) {
  for (const auto& [known, name] : kNumpyNames)
    if (known == dtype) return py::dtype(name);
  throw Error(ErrorCode::kTypeMismatch, fmt::format("unsupported type: NumPy has no {}", to_string(dtype)));
}

// Asked by native code that runs without the interpreter lock.
bool interrupted() {
  py::gil_scoped_acquire inside;
  return PyErr_CheckSignals() != 0;
}

template <typename Work>
auto without_gil(Work work) {
  py::gil_scoped_release outside;
  return work();
}

void outside_the_interpreter(const std::function<void()>& wait) {
  if (PyGILState_Check() == 0) return wait();
  py::gil_scoped_release outside;
  wait();
}

// The array as the device takes it; Error instead of a cast.
py::array plain_array(const std::string& name, const py::object& value, DType dtype, const Shape& shape) {
  py::array array = py::array::ensure(value, py::array::c_style);
  if (!array) {
    PyErr_Clear();
    throw Error(ErrorCode::kTypeMismatch, fmt::format("{} takes a NumPy array", name));
  }
  const Shape given(array.shape(), array.shape() + array.ndim());
  const py::dtype wanted = numpy_type(dtype);
  if (!array.dtype().is(wanted) && !array.dtype().equal(wanted))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Data type mismatch: {} takes {}, got {}", name, std::string(py::str(wanted)),
                            std::string(py::str(array.dtype()))));
  if (given != shape)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Shape mismatch: {} takes {}, got {}", name, to_string(shape), to_string(given)));
  return array;
}

// One session, and the streams of its program by name.
class CoreSession {
 public:
  explicit CoreSession(executable::Executable executable)
      : session_(std::move(executable), {}, {}), program_(*session_.program()) {
    session_.set_interrupted(&interrupted);
    for (const program::Stream& stream : program_.streams)
      elements_.push_back(emulator::HostStream(stream, program_).elements_per_run());
  }

  Session& session() { return session_; }

  py::dict streams() const {
    py::dict result;
    for (size_t s = 0; s < program_.streams.size(); ++s) {
      const program::Stream& stream = program_.streams[s];
      result[py::str(stream.name)] =
          py::make_tuple(is_input(stream) ? "input" : "output", numpy_type(stream.host_dtype),
                         py::tuple(py::cast(shape(s))));
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
    without_gil([&] { Session::Access(session_, "reading a variable").read(v, view); });
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

  py::dict run(const std::map<std::string, py::object>& inputs) {
    for (const auto& [name, value] : inputs) require_input(name);
    std::vector<py::array> arrays;
    py::dict outputs;
    for (size_t s = 0; s < program_.streams.size(); ++s) {
      const program::Stream& stream = program_.streams[s];
      if (is_input(stream)) {
        auto given = inputs.find(stream.name);
        if (given == inputs.end())
          throw Error(ErrorCode::kTypeMismatch,
                      fmt::format("input {} is missing: it takes {} of {}", stream.name, to_string(shape(s)),
                                  to_string(stream.host_dtype)));
        arrays.push_back(plain_array("input " + stream.name, given->second, stream.host_dtype, shape(s)));
      } else {
        arrays.emplace_back(numpy_type(stream.host_dtype), shape(s));
        outputs[py::str(stream.name)] = arrays.back();
      }
    }
    if (!session_.is_attached()) without_gil([&] { session_.attach(); });
    std::vector<std::byte*> data;
    for (py::array& array : arrays)  // the engine only reads inputs
      data.push_back(static_cast<std::byte*>(const_cast<void*>(array.data())));
    without_gil([&] {
      Session::Call call(session_);
      for (size_t s = 0; s < data.size(); ++s) call.bind(static_cast<int>(s), data[s], elements_[s]);
      call.run();
    });
    return outputs;
  }

 private:
  static bool is_input(const program::Stream& stream) {
    return stream.mode == program::StreamMode::kInput || stream.mode == program::StreamMode::kConstantInput;
  }

  static std::span<std::byte> bytes_of(py::array& array) {
    return {static_cast<std::byte*>(array.mutable_data()), static_cast<size_t>(array.nbytes())};
  }

  // Of all elements of a run: one element as it is, several with a dimension in front.
  Shape shape(size_t stream) const {
    Shape shape = program_.streams[stream].spec.shape;
    if (elements_[stream] != 1) shape.insert(shape.begin(), elements_[stream]);
    return shape;
  }

  const program::Variable& variable(const std::string& name) const {
    const program::Variable* found = session_.variables().find(name);
    if (found == nullptr)
      throw Error(ErrorCode::kExecution, fmt::format("the program has no variable {}", name));
    return *found;
  }

  void require_input(const std::string& name) const {
    for (const program::Stream& stream : program_.streams)
      if (stream.name == name && is_input(stream)) return;
    throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no input {}", name));
  }

  Session session_;
  const program::Program& program_;
  std::vector<int64_t> elements_;  // of one run, by stream
};

std::unique_ptr<CoreSession> compile(const std::string& text, const std::string& source, int replicas,
                                     int64_t device_iterations, int64_t accumulation) {
  return without_gil([&] {
    Interruptible scope(&interrupted);
    std::unique_ptr<ir::Module> module = ir::parse(text, source);
    executable::CompileOptions options;
    options.replicas = replicas;
    options.device_iterations = device_iterations;
    options.accumulation = accumulation;
    return std::make_unique<CoreSession>(executable::compile(*module, target::attached_system(), options));
  });
}

PyObject* error_class = nullptr;

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
  set_wait_hooks({&outside_the_interpreter, &interrupted});
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
      .def("streams", &CoreSession::streams, "name -> (\"input\" or \"output\", dtype, shape in one run)")
      .def("variables", &CoreSession::variables, "name -> (dtype, shape on the host)")
      .def("read", &CoreSession::read, py::arg("variable"), "Value of a variable, as an array.")
      .def("write", &CoreSession::write, py::arg("variable"), py::arg("value"))
      .def("run", &CoreSession::run, py::arg("inputs"),
           "Runs once; arrays of all outputs by name. Attaches if needed.")
      .def(
          "ir_text", [](CoreSession& s) { return s.session().executable().ir_text; },
          "The IR after all passes.")
      .def("program_text", [](CoreSession& s) { return s.session().program_text(); });
  m.def("compile", &compile, py::arg("text"), py::arg("source"), py::arg("replicas"),
        py::arg("device_iterations"), py::arg("accumulation"));
}

}  // namespace ipu::bindings
