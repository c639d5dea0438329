#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bindings/bindings.h"
#include "bindings/interpreter.h"
#include "bindings/on_session.h"
#include "bindings/python_errors.h"
#include "frontends/torch/capture/capture.h"
#include "frontends/torch/executor/executor.h"
#include "support/interruption.h"
#include "support/owned_lock.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using runtime::Session;

// --- options

optimizers::HyperParameter hyper_of(const py::handle& value) {
  auto pair = value.cast<std::pair<double, bool>>();
  return {pair.first, pair.second};
}

DType state_dtype(const py::dict& d, const char* key) {
  if (!d.contains(key) || d[key].is_none()) return DType::kF32;
  auto text = d[key].cast<std::string>();
  if (text == "float32") return DType::kF32;
  if (text == "float16") return DType::kF16;
  std::optional<DType> dtype = dtype_from_string(text);
  if (!dtype || !is_floating_point(*dtype)) {
    throw Error(ErrorCode::kOptimizer,
                std::string("unsupported type: ") + key + " = " + text + "; float32 or float16");
  }
  return *dtype;
}

optimizers::Spec optimizer_of(const py::dict& d) {
  optimizers::Spec spec;
  spec.kind = static_cast<optimizers::Kind>(d["kind"].cast<int>());
  for (const py::handle& entry : d["groups"]) {
    optimizers::Group group;
    for (const auto& [key, value] : entry.cast<py::dict>()) {
      auto name = key.cast<std::string>();
      if (name == "nesterov")
        group.nesterov = value.cast<bool>();
      else
        group.hyper[name] = hyper_of(value);
    }
    spec.groups.push_back(std::move(group));
  }
  spec.group_of = d["group_of"].cast<std::map<std::string, int>>();
  if (d.contains("loss_scaling")) spec.loss_scaling = hyper_of(d["loss_scaling"]);
  spec.accum_dtype = state_dtype(d, "accum_dtype");
  spec.velocity_dtype = state_dtype(d, "velocity_dtype");
  spec.second_dtype = state_dtype(d, "second_dtype");
  if (d.contains("max_grad_norm")) spec.max_grad_norm = d["max_grad_norm"].cast<double>();
  if (d.contains("tf_variant")) spec.tf_variant = d["tf_variant"].cast<bool>();
  return spec;
}

tf::CompileSettings settings_of(const py::dict& d) {
  tf::CompileSettings s;
  auto number = [&](const char* key, int64_t fallback) {
    return d.contains(key) ? d[key].cast<int64_t>() : fallback;
  };
  auto flag = [&](const char* key, bool fallback) {
    return d.contains(key) ? d[key].cast<bool>() : fallback;
  };
  s.training = flag("training", false);
  s.device_iterations = number("device_iterations", 1);
  s.accumulation = number("gradient_accumulation", 1);
  s.replicas = static_cast<int>(number("replication_factor", 1));
  s.processes = static_cast<int>(number("processes", 1));
  auto groups_of = [](const py::handle& value) {
    auto [size, stride] = value.cast<std::pair<int64_t, int64_t>>();
    return ReplicaGrouping{stride, size, {}};
  };
  if (d.contains("input_groups")) s.input_groups = groups_of(d["input_groups"]);
  s.broadcast_buffers = flag("broadcast_buffers", true);
  if (d.contains("replica_groupings")) {
    for (const auto& [name, value] : d["replica_groupings"].cast<py::dict>()) {
      auto grouping = value.cast<py::tuple>();
      s.groupings[name.cast<std::string>()] = {groups_of(grouping[0]), grouping[1].cast<bool>()};
    }
  }
  s.output_mode = static_cast<ir::OutputMode>(number("output_mode", s.training ? 0 : 2));
  s.output_period = number("output_period", 1);
  if (d.contains("schedule")) {
    auto schedule = d["schedule"].cast<std::string>();
    if (schedule == "sharded") {
      s.schedule = frontends::Schedule::kSharded;
    } else if (schedule != "pipelined") {
      throw Error(ErrorCode::kEnvironment, "unknown schedule: " + schedule + "; pipelined or sharded");
    }
  }
  if (d.contains("places")) {
    for (const auto& [id, place] : d["places"].cast<std::map<std::string, std::pair<int, int>>>()) {
      s.places[id] = {place.first, place.second};
    }
  }
  s.mean_reduction = flag("mean_reduction", true);
  s.running_mean = flag("running_mean", false);
  s.recomputation = number("recomputation", 0);
  s.auto_round_num_ipus = flag("auto_round_num_ipus", false);
  auto text = [&](const char* key) { return d.contains(key) ? d[key].cast<std::string>() : std::string(); };
  s.cache_directory = text("cache_directory");
  s.version = text("version");
  s.offline_ipu_version = static_cast<int>(number("offline_ipu_version", 0));
  s.any_ipu_count = flag("any_ipu_count", false);
  if (d.contains("anchors")) {
    using Entry = std::tuple<std::string, std::string, int, int64_t>;
    for (const auto& [short_name, long_name, mode, period] : d["anchors"].cast<std::vector<Entry>>())
      s.anchors.push_back({short_name, long_name, static_cast<ir::OutputMode>(mode), period});
  }
  if (d.contains("optimizer") && !d["optimizer"].is_none())
    s.optimizer = optimizer_of(d["optimizer"].cast<py::dict>());
  return s;
}

// --- running

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
  if (target::DevicePool::instance().free_count() < executor.session().executable().ipus_reserved) collect();
  try {
    once();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNoDevice) throw;
    collect();
    once();
  }
}

// A wait for a lock of ours, without the interpreter lock if this thread has it: the holder may need it to go
// on.
void outside_the_interpreter(const std::function<void()>& wait) {
  if (PyGILState_Check() == 0) return wait();
  tf::OutsideInterpreter outside;
  wait();
}

// The lock of something in Python, with the same rules as for the device (support/owned_lock.h). It is held
// around a call of native code: between the lines of a `with` in Python something may be raised, which would
// leave the lock taken for ever.
struct PythonLock {
  explicit PythonLock(std::string name)
      : what(std::move(name)), lock(what.c_str(), OwnedLock::Again::kAllowed, OwnedLock::InChild::kFree) {}
  const std::string what;
  OwnedLock lock;
};

py::object hold(PythonLock& l, const py::object& f, const py::args& args, const py::kwargs& kwargs) {
  OwnedLock::Hold held(l.lock);
  return f(*args, **kwargs);
}

py::object hold_for_capture(PythonLock& l, const py::object& f) {
  OwnedLock::Hold held(l.lock);
  struct Watch {
    OwnedLock& lock;
    explicit Watch(OwnedLock& l) : lock(l) { lock.watch(&tf::Capture::steps()); }
    ~Watch() { lock.watch(nullptr); }
  } watch(l.lock);
  return f();
}

// The same for the gate of a device.
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

void define_locks(py::module_& m) {
  set_wait_hooks({&outside_the_interpreter, &interrupted});
  py::class_<PythonLock>(m, "WaitLock",
                         "A lock, which its holder may take again. Error instead of a wait without end.")
      .def(py::init<std::string>(), py::arg("what"))
      .def("hold", &hold, py::arg("f"), "f(*args, **kwargs) with the lock.")
      .def("hold_for_capture", &hold_for_capture, py::arg("f"),
           "f() with the lock; others wait only while a capture goes on.")
      .def(
          "is_held", [](const PythonLock& l) { return l.lock.is_held(); }, "By whatever thread.")
      .def("__reduce__",  // a copy of what is locked has a lock of its own
           [](const PythonLock& l) {
             return py::make_tuple(py::type::of<PythonLock>(), py::make_tuple(l.what));
           });
}

// `exchange` is called by the thread that runs the device, with the GIL; None: nothing is exchanged.
void set_job(tf::Executor& executor, int first_replica, py::object exchange) {
  if (exchange.is_none()) return executor.session().set_job(first_replica, nullptr);
  auto shared = std::shared_ptr<py::object>(new py::object(std::move(exchange)), [](py::object* f) {
    tf::InsideInterpreter inside;
    delete f;
  });
  executor.session().set_job(first_replica, [shared](std::vector<std::byte> mine) {
    tf::InsideInterpreter inside;
    try {
      const py::bytes all = (*shared)(py::bytes(reinterpret_cast<const char*>(mine.data()), mine.size()));
      const std::string_view view = all;
      const auto* begin = reinterpret_cast<const std::byte*>(view.data());
      return std::vector<std::byte>(begin, begin + view.size());
    } catch (py::error_already_set& e) {
      if (e.matches(PyExc_KeyboardInterrupt)) {
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

// --- counters for tests

struct AllocationCounter final : c10::MemoryReportingInfoBase {
  int64_t count = 0;
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    count += size > 0 ? 1 : 0;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

thread_local int64_t dispatches = 0, depth = 0;

// A call with the number of top-level ATen operators and of tensor allocations made inside it by the calling
// thread.
py::dict counted_run(tf::Executor& executor, const std::vector<at::Tensor>& inputs) {
  dispatches = depth = 0;
  auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(
                                     [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                                       if (depth++ == 0) ++dispatches;
                                       return nullptr;
                                     },
                                     [](const at::RecordFunction&, at::ObserverContext*) { --depth; })
                                     .scopes({at::RecordScope::FUNCTION}));
  auto counter = std::make_shared<AllocationCounter>();
  Results results;
  try {
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    results = run(executor, inputs);
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
  py::dict d;
  d["dispatches"] = dispatches;
  d["allocations"] = counter->count;
  d["outputs"] = results;
  return d;
}

std::vector<py::dict> take_trace(tf::Executor& executor) {
  std::vector<py::dict> events;
  for (const emulator::TraceEvent& e : without_gil([&] { return executor.session().take_trace(); })) {
    py::dict d;
    d["replica"] = e.replica;
    d["ipu"] = e.ipu;
    d["instruction"] = e.instruction;
    d["iteration"] = e.iteration;
    d["begin_ns"] = e.begin_ns;
    d["end_ns"] = e.end_ns;
    const program::Program& p = *executor.session().program();
    const program::Instruction& instruction = p.ipus.at(e.ipu).instructions.at(e.instruction);
    d["kernel"] = instruction.kernel;
    if (instruction.origin >= 0) {
      const program::Origin& origin = p.origins.at(instruction.origin);
      d["op"] = origin.op;
      d["location"] = origin.location;
      d["stage"] = origin.stage;
      d["backward"] = origin.backward;
    }
    events.push_back(std::move(d));
  }
  return events;
}

// What the program keeps on each IPU of one replica: for reports and tests.
std::vector<py::dict> memory(tf::Executor& executor) {
  std::vector<py::dict> ipus;
  runtime::Session& session = executor.session();
  if (session.program() == nullptr) return ipus;
  const program::Program& p = *session.program();
  const std::vector<int64_t> host_bytes = without_gil([&] { return session.host_bytes(); });
  for (size_t i = 0; i < p.ipus.size(); ++i) {
    py::dict d;
    std::vector<std::string> variables;
    for (const program::Variable& v : p.variables) {
      if (v.ipu == static_cast<int>(i)) variables.push_back(v.name);
    }
    d["variables"] = variables;
    d["arena_bytes"] = p.ipus[i].arena_bytes;
    d["peak_bytes"] = p.ipus[i].peak_bytes;
    if (!host_bytes.empty()) d["host_bytes"] = host_bytes[i];
    ipus.push_back(std::move(d));
  }
  return ipus;
}

}  // namespace

bool interrupted() {
  tf::InsideInterpreter inside;
  return PyErr_CheckSignals() != 0;
}

void define_executor(py::module_& m) {
  define_locks(m);
  py::class_<tf::Executor>(m, "Executor")
      .def("call", &call, py::arg("arguments"),
           "Runs on a tuple of tensors; a tensor or a tuple of them. None when the arguments need a closer "
           "look.")
      .def(
          "run", [](tf::Executor& e, const std::vector<at::Tensor>& inputs) { return run(e, inputs); },
          py::arg("inputs"), "Runs once; None without a device.")
      .def("counted_run", &counted_run, py::arg("inputs"))
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
          "(seed, runs so far)")
      .def_property_readonly("ipus_reserved",
                             [](const tf::Executor& e) { return e.session().executable().ipus_reserved; })
      .def_property_readonly("first_ipu",
                             [](const tf::Executor& e) {
                               const int first = e.session().first_ipu();
                               return first < 0 ? py::object(py::none()) : py::object(py::int_(first));
                             })
      .def_property_readonly("compile_seconds",
                             [](const tf::Executor& e) { return e.session().executable().compile_seconds; })
      .def_property_readonly("from_cache",
                             [](const tf::Executor& e) { return e.session().executable().from_cache; })
      .def(
          "ir_text", [](const tf::Executor& e) { return e.session().executable().ir_text; },
          "The IR after all passes.")
      .def("program_text", [](const tf::Executor& e) { return e.session().program_text(); })
      .def("trace", on_session(&Session::set_trace), py::arg("enable"))
      .def("take_trace", &take_trace)
      .def("memory", &memory)
      .def("statistics", [](const tf::Executor& e) { return e.session().executable().statistics.counts; });
  m.def(
      "compile",
      [](tf::Captured& captured, const py::dict& options) {
        tf::CompileSettings settings = settings_of(options);
        settings.interrupted = &interrupted;
        return stoppable([&] {  // other threads go on
          auto executor = std::make_unique<tf::Executor>(captured, settings);
          executor->session().set_interrupted(&interrupted);
          return executor;
        });
      },
      py::arg("captured"), py::arg("options"), "Compiles a captured graph; it can be compiled once.");
}

}  // namespace ipu::bindings
