// Python module ipu_core._native: IR text to a session, and arrays in and out of it. Without torch.
#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <optional>

#include "bindings/core/core_session.h"
#include "bindings/core/device_binding.h"
#include "bindings/core/executable_files.h"
#include "bindings/core/interpreter_binding.h"
#include "bindings/core/machine_binding.h"
#include "bindings/core/memory_binding.h"
#include "bindings/core/model_program_binding.h"
#include "bindings/core/numpy_arrays.h"
#include "bindings/core/optimizer_values.h"
#include "bindings/core/program_binding.h"
#include "bindings/core/python_port.h"
#include "bindings/core/records_binding.h"
#include "bindings/core/replica_groups_binding.h"
#include "bindings/core/report_binding.h"
#include "bindings/core/unit_binding.h"
#include "emulator/streams/array_port.h"
#include "executable/compile.h"
#include "executable/memory_verdict.h"
#include "executable/report_file.h"
#include "ir/text/text.h"
#include "ops/definition/graphcore_nodes.h"
#include "ops/definition/importers.h"
#include "ops/definition/popart_operators.h"
#include "ops/verify.h"
#include "python/error_attributes.h"
#include "python/interpreter_lock.h"
#include "python/wait_lock.h"
#include "python/without_lock.h"
#include "report/program_report.h"
#include "runtime/session.h"
#include "support/error.h"
#include "support/error_category.h"
#include "support/interruption.h"
#include "support/owned_lock.h"
#include "target/known_machine.h"
#include "target/machine_of_system.h"
#include "target/system.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using pybind11::literals::operator""_a;
using python::interrupted;
using python::without_gil;
using runtime::Session;

// What decides about the program of a text; of records the step options do too.
executable::CompileOptions compile_options(int replicas, int processes = 1) {
  executable::CompileOptions options;
  options.replicas = replicas;
  options.processes = processes;
  return options;
}

// Of the attached system with so many IPUs, if the device is like it, or of a software model; "": the attached system as it is.
const target::Machine& machine_of(const std::string& version, int tiles, int ipus) {
  target::System system = target::attached_system();
  if (!version.empty()) {
    const target::System& model = *target::find_model(version, false);
    if (tiles != system.tiles_per_ipu || model.ipu_version != system.ipu_version) {
      system = model;
      system.tiles_per_ipu = tiles;
    }
    system.num_ipus = ipus;
  }
  return target::machine_of(system);
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

std::vector<py::dict> tile_memory(CoreSession& session) {
  const std::vector<report::IpuMemory> memory =
      without_gil([&] { return session.session().executable().machine().memory(); });
  std::vector<py::dict> ipus;
  for (const report::IpuMemory& of : memory)
    ipus.push_back(py::dict("ipu"_a = of.ipu, "variables"_a = of.variables, "constants"_a = of.constants,
                            "rings"_a = of.rings, "values"_a = of.values, "total"_a = of.total()));
  return ipus;
}

std::optional<py::dict> machine(const std::string& version) {
  const target::System* model = target::find_model(version, false);
  if (model == nullptr) return std::nullopt;
  return py::dict("tiles"_a = model->tiles_per_ipu, "bytes_per_tile"_a = model->bytes_per_tile,
                  "workers_per_tile"_a = model->workers_per_tile);
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
    if (PyErr_Occurred() == nullptr) set_core_error(e);
  } catch (const py::cast_error&) {
    PyErr_SetString(
        PyExc_TypeError,
        "wrong kind of value: an argument, or something in it, is of another type than the call takes");
  } catch (const py::builtin_exception&) {
    throw;
  } catch (const py::error_already_set&) {
    throw;
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of host memory");
  } catch (const std::length_error&) {
    PyErr_SetString(PyExc_MemoryError, "out of host memory: more elements than can be");
  } catch (const std::exception& e) {
    PyErr_SetString(core_error_class(), fmt::format("internal error [IPU-E0]: {}", e.what()).c_str());
  }
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "Native part of ipu_core.";
  set_wait_hooks({&python::wait_outside, &interrupted});
  PyObject*& error_class = core_error_class();
  error_class = PyErr_NewExceptionWithDoc(
      "ipu_core.Error", "What the compiler, the device or a check found wrong.", PyExc_RuntimeError, nullptr);
  m.add_object("Error", py::reinterpret_borrow<py::object>(error_class));
  python::define_error_attributes(error_class);
  py::handle(error_class).attr("category") = static_cast<int>(ErrorCategory::kInternal);
  py::register_local_exception_translator(&translate);
  py::class_<CoreSession>(m, "Session", "A compiled program on a device.")
      .def(
          "attach",
          [](CoreSession& s, std::shared_ptr<runtime::DeviceLease> ipus) {
            without_gil([&] { s.session().attach(std::move(ipus)); });
          },
          py::arg("ipus") = nullptr, "Loads the program, onto IPUs that are held or on others.")
      .def("detach", [](CoreSession& s) { without_gil([&] { s.session().detach(); }); })
      .def_property_readonly("is_attached", [](CoreSession& s) { return s.session().is_attached(); })
      .def_property_readonly("first_ipu",
                             [](CoreSession& s) {
                               const int first = s.session().first_ipu();
                               return first < 0 ? std::optional<int>() : first;
                             })
      .def_property_readonly("ipus", [](CoreSession& s) { return s.session().executable().ipus_reserved; })
      .def_property_readonly("from_cache", [](CoreSession& s) { return s.session().executable().from_cache; })
      .def_property_readonly("has_random", &CoreSession::has_random,
                             "Whether a run draws random numbers that the session's seed decides about.")
      .def(
          "cycles",
          [](CoreSession& s, std::optional<int> ipu) {
            return without_gil([&] { return ipu ? s.session().cycles_of(*ipu) : s.session().cycles(); });
          },
          py::arg("ipu") = std::nullopt,
          "Host time of the last run in cycles of the device's clock; `ipu`: until that IPU of the first "
          "replica was done.")
      .def(
          "memory", &tile_memory,
          "Of each IPU of a replica that the machine form uses: {\"ipu\", and bytes of \"variables\", \"constants\", "
          "\"rings\", \"values\" alive at the peak, and the \"total\"}.")
      .def(
          "judge_memory",
          [](CoreSession& s, const std::string& version, int tiles, int ipus, int64_t replicas,
             bool is_outlined, bool is_strict) -> std::optional<py::dict> {
            const auto verdict = without_gil([&] {
              return executable::judge_memory(s.session().executable(), machine_of(version, tiles, ipus),
                                              {replicas, is_outlined, is_strict});
            });
            return verdict ? shown(*verdict) : std::optional<py::dict>();
          },
          py::arg("version"), py::arg("tiles"), py::arg("ipus"), py::arg("replicas"), py::arg("outlined"),
          py::arg("strict"),
          "As judge_memory(), of an IPU of that version with so many tiles; None where the program needs so little that "
          "nobody has to look closely, which `strict` does in any case.")
      .def(
          "report",
          [](CoreSession& s, int64_t bytes_per_ipu) {
            return without_gil([&] {
              return report::to_text(report::describe(s.session().executable().machine().module()),
                                     bytes_per_ipu);
            });
          },
          py::arg("bytes_per_ipu"), "What the machine form says of the program, as text.")
      .def(
          "report_on",
          [](CoreSession& s, const std::string& machine, const std::string& version, int tiles, int ipus,
             int64_t replicas, bool is_outlined) {
            return without_gil([&] {
              const auto [text, json] = executable::report_on(
                  s.session().executable(),
                  machine.empty() ? machine_of(version, tiles, ipus) : target::known_machine(machine),
                  {.replicas = 0,
                   .replicas_of_machine = machine.empty() ? replicas : 0,
                   .is_outlined = is_outlined});
              return std::pair(text, json);
            });
          },
          py::arg("machine") = "", py::arg("version") = "", py::arg("tiles") = 0, py::arg("ipus") = 0,
          py::arg("replicas") = 0, py::arg("outlined") = true,
          "The report on the program: (text, JSON). `machine`: a name or a path, which must have IPUs for all replicas; "
          "\"\": that of judge_memory(), for `replicas`.")
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
           py::arg("entry") = "main", py::arg("outputs") = std::map<std::string, py::object>(),
           "Runs an entry point once; arrays of the outputs that are not bound, by name. Attaches if needed. "
           "`outputs`: arrays of outputs that are filled in place and not given back.")
      .def(
          "run_parts", &CoreSession::run_parts, py::arg("inputs"), py::arg("entry"), py::arg("outputs"),
          "Runs an entry point once with parts of arrays, of the type of the stream or twice as wide integers or "
          "numbers: an input is (array, scalars before the part, times each element is given), an output (array, "
          "scalars before the part). Behind the end of an array it goes on at the front.")
      .def(
          "upload", &CoreSession::upload, py::arg("values"),
          "name -> (array, entry of each replica, shards of an entry): values of variables, in entries as the host "
          "has them. [] for one entry; 0 shards unless the variable lies in smaller or larger entries of a remote "
          "buffer.")
      .def("download", &CoreSession::download, py::arg("values"),
           "The same arrays, filled with the device's values.")
      .def(
          "set_job", &set_job, py::arg("first_replica"), py::arg("exchange"),
          "Before attaching, in each process of a job: the number of this one's first replica in the job, and "
          "what connects the processes. exchange(bytes) gives the bytes of all processes, one after another in "
          "their order, for those of this one; all call it in the same order.")
      .def(
          "set_optimizer",
          [](CoreSession& s, const py::dict& values) {
            const optimizers::Spec spec = optimizer_spec_of(values);
            without_gil([&] { s.session().set_optimizer(spec); });
          },
          py::arg("values"), "Other values for what is not constant in the optimizer, from the next run on.")
      .def_property(
          "random_state",
          [](CoreSession& s) {
            const auto state = without_gil([&] { return s.session().random_state(); });
            return py::make_tuple(state.seed, state.runs);
          },
          [](CoreSession& s, std::pair<uint64_t, uint64_t> state) {
            without_gil([&] { s.session().set_random_state({state.first, state.second}); });
          },
          "The seed, and how many runs went before: what the random numbers of the next run depend on.")
      .def(
          "set_rounding_seed",
          [](CoreSession& s, uint64_t seed) { without_gil([&] { s.session().set_rounding_seed(seed); }); },
          py::arg("seed"), "What the rounding of the next runs depends on, where it has a seed of its own.")
      .def(
          "ir_text", [](CoreSession& s) { return s.session().executable().ir_text; },
          "The IR after all passes, as this computer runs it.")
      .def(
          "machine_text",
          [](CoreSession& s) { return without_gil([&] { return s.session().executable().machine_text(); }); },
          "The IR as the machine runs it, the same on every computer: ops whole, planned recomputation carried out, "
          "stages, rings and copies between IPUs.")
      .def("program_text", [](CoreSession& s) { return s.session().program_text(); });
  py::class_<python::WaitLock>(
      m, "WaitLock", "A lock, which its holder may take again. Error instead of a wait without end.",
      py::module_local())
      .def(py::init<std::string>(), py::arg("what"))
      .def("hold", &python::hold, py::arg("f"), "f(*args, **kwargs) with the lock.");
  bind_devices(m);
  bind_replica_groups(m);
  bind_interpreter(m);
  bind_machines(m);
  bind_estimates(m);
  bind_memory(m);
  bind_reports(m);
  bind_program(m);
  bind_executable_files(m);
  bind_model_program(m);
  bind_units(m);
  m.def("compile", &compile, py::arg("text"), py::arg("source"), py::arg("replicas"), py::arg("processes"));
  m.def("compile_model", &compile_model, py::arg("model"), py::arg("program"));
  m.def("model_text", [](const py::dict& model, const py::dict& program) {
    return ir::print(*program_of_records(model, program).module);
  });
  m.def("result_types", &result_types, py::arg("model"));
  m.def(
      "machine", &machine, py::arg("version"),
      "An IPU of that architecture (\"ipu2\") in numbers: {\"tiles\", \"bytes_per_tile\", \"workers_per_tile\"}; None: there "
      "is none of that name.");
  m.def("graphcore_operators", [] {
    py::list list;
    for (const ops::GraphcoreOperator& op : ops::graphcore_operators())
      list.append(
          py::make_tuple(op.type, op.method, op.operands, op.results, op.gradient, op.parameters, op.doc));
    return list;
  });
  m.def("onnx_operators", [] {
    py::list list;
    for (const ops::PopartOperator& op : ops::popart_operators())
      list.append(
          py::make_tuple(op.types, op.versions, op.operands, op.results, op.gradient, op.attributes, op.how));
    return list;
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
