// Class Executor: compiling, attaching, states, and calls.
#include <torch/csrc/autograd/python_variable.h>

#include "bindings/bindings.h"
#include "bindings/compile_settings.h"
#include "bindings/host_functions.h"
#include "bindings/observation.h"
#include "bindings/on_session.h"
#include "frontends/torch/executor/executor.h"
#include "runtime/device_pool.h"
#include "support/interruption.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using python::interrupted;
using python::unlocked;
using python::without_gil;
using runtime::Session;

// Without the interpreter lock, for work that asks now and then whether it shall stop.
template <typename Work>
auto stoppable(Work work) {
  return without_gil([&] {
    Interruptible scope(&interrupted);
    return work();
  });
}

using Results = std::optional<std::vector<at::Tensor>>;

Results run(tf::Executor& executor, at::ArrayRef<at::Tensor> inputs) {
  return without_gil([&] { return executor.run(inputs); });
}

// Wrappers that nobody reaches any more may still hold IPUs: an exception keeps the frames it went through, and they
// what stood in them, until the garbage is collected.
void attach(tf::Executor& executor) {
  auto once = [&] { stoppable([&] { executor.session().attach(); }); };
  auto collect = [] { py::module_::import("gc").attr("collect")(); };
  if (runtime::DevicePool::instance().free_count() < executor.session().executable().ipus_reserved) collect();
  try {
    once();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNoDevice) throw;
    collect();
    once();
  }
}

// `f()` while the gate of the device is closed. Closed around a call of native code, for the reason of a
// PythonLock (lock_bindings.cc).
py::object without_calls(tf::Executor& executor, const py::object& f) {
  struct Gate {
    runtime::Session& session;
    const bool was_open;
    explicit Gate(runtime::Session& s) : session(s), was_open(s.accept_calls(false)) {}
    ~Gate() {
      if (was_open) session.accept_calls(true);
    }
  } gate(executor.session());
  return f();
}

// `exchange` is called by the thread that runs the device, with the GIL; None: nothing is exchanged.
void set_job(tf::Executor& executor, int first_replica, py::object exchange) {
  if (exchange.is_none()) return executor.session().set_job(first_replica, nullptr);
  auto shared = std::shared_ptr<py::object>(new py::object(std::move(exchange)), [](py::object* f) {
    python::InsideInterpreter inside;
    delete f;
  });
  executor.session().set_job(first_replica, [shared](std::vector<std::byte> mine) {
    python::InsideInterpreter inside;
    try {
      const py::bytes all = (*shared)(py::bytes(reinterpret_cast<const char*>(mine.data()), mine.size()));
      const std::string_view view = all;
      const auto* begin = reinterpret_cast<const std::byte*>(view.data());
      return std::vector<std::byte>(begin, begin + view.size());
    } catch (py::error_already_set& e) {
      if (!e.matches(PyExc_Exception)) {
        e.restore();
        throw Error(ErrorCode::kInterrupted, "interrupted: while waiting for the other processes of the job");
      }
      throw Error(ErrorCode::kExecution,
                  "exchange between processes failed: " + std::string(py::str(e.type().attr("__name__"))) +
                      ": " + std::string(py::str(e.value())));
    }
  });
}

// The quick way: every argument is a tensor that fits as it stands. None: the caller checks and explains, or
// attaches.
py::object call(tf::Executor& executor, const py::tuple& arguments) {
  size_t n = executor.input_count();
  if (static_cast<size_t>(PyTuple_GET_SIZE(arguments.ptr())) != n) return py::none();
  c10::SmallVector<at::Tensor, 8> inputs;
  for (size_t i = 0; i < n; ++i) {
    PyObject* object = PyTuple_GET_ITEM(arguments.ptr(), i);
    if (!THPVariable_Check(object)) return py::none();
    const at::Tensor& t = THPVariable_Unpack(object);
    if (!executor.accepts(i, t)) return py::none();
    inputs.push_back(t);
  }
  Results given = run(executor, inputs);
  if (!given) return py::none();
  std::vector<at::Tensor>& results = *given;
  if (results.size() == 1) return py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(results[0])));
  py::tuple tuple(results.size());
  for (size_t k = 0; k < results.size(); ++k) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(k), THPVariable_Wrap(std::move(results[k])));
  }
  return tuple;
}

}  // namespace

void define_executor(py::module_& m) {
  py::class_<tf::Executor> executor(m, "Executor");
  executor
      .def("call", &call, py::arg("arguments"),
           "Runs on a tuple of tensors; a tensor or a tuple of them. None when the arguments need a closer "
           "look.")
      .def(
          "run", [](tf::Executor& e, const std::vector<at::Tensor>& inputs) { return run(e, inputs); },
          py::arg("inputs"), "Runs once; None without a device.")
      .def("attach", &attach)
      .def("detach", on_session(&Session::detach))
      .def("accept_calls", on_session(&Session::accept_calls), py::arg("accept"),
           "Whether call() and run() run; returns whether they did before.")
      .def("accepts_calls", on_session(&Session::accepts_calls))
      .def("without_calls", &without_calls, py::arg("f"),
           "f() while no call runs: one that runs now ends first, others wait.")
      .def("is_attached", [](const tf::Executor& e) { return e.session().is_attached(); })
      .def(
          "weights_version", [](const tf::Executor& e) { return e.session().weights_version(); },
          "Another one for each run that began.")
      .def("write_states", unlocked(&tf::Executor::write_states), py::arg("states"))
      .def("read_states", unlocked(&tf::Executor::read_states), py::arg("states"))
      .def("read_optimizer_state", unlocked(&tf::Executor::read_optimizer_state))
      .def("write_optimizer_state", unlocked(&tf::Executor::write_optimizer_state), py::arg("state"))
      .def("set_job", &set_job, py::arg("first_replica"), py::arg("exchange"),
           "exchange: bytes of this process -> bytes of all; before attaching")
      .def("set_optimizer",
           [](tf::Executor& e, const py::dict& d) {
             const optimizers::Spec next = optimizer_of(d);
             without_gil([&] { e.session().set_optimizer(next); });
           })
      .def(
          "set_random_state",
          [](tf::Executor& e, uint64_t seed, uint64_t runs) {
            without_gil([&] { e.session().set_random_state({seed, runs}); });
          },
          py::arg("seed"), py::arg("runs"))
      .def(
          "random_state",
          [](tf::Executor& e) {
            const Session::RandomState state = without_gil([&] { return e.session().random_state(); });
            return std::pair(state.seed, state.runs);
          },
          "(seed, runs so far)");
  define_host_functions(executor);
  define_observation(executor);
  m.def(
      "compile",
      [](tf::Captured& captured, const py::dict& options) {
        tf::CompileSettings settings = settings_of(options);
        settings.cache.interrupted = &interrupted;
        return stoppable([&] {  // other threads go on
          auto executor = std::make_unique<tf::Executor>(captured, settings);
          executor->session().set_interrupted(&interrupted);
          return executor;
        });
      },
      py::arg("captured"), py::arg("options"), "Compiles a captured graph; it can be compiled once.");
}

}  // namespace ipu::bindings
