// What can be looked at in a compiled program and its runs: texts, sizes, memory, traces, and the counters of
// tests. Nothing here changes what a run computes.
#include "bindings/observation.h"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/on_session.h"
#include "executable/memory_verdict.h"
#include "executable/report_file.h"
#include "target/known_machine.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace tf = frontends::torch_frontend;
using python::without_gil;
using runtime::Session;

struct AllocationCounter final : c10::MemoryReportingInfoBase {
  int64_t count = 0;
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    count += size > 0 ? 1 : 0;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

constexpr const char* kMemoryError = "poplar_graph_memory_allocation_error";

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
  std::optional<std::vector<at::Tensor>> results;
  try {
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    results = without_gil([&] { return executor.run(inputs); });
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
    d["ipu"] = executor.session().program()->ipu_of(e.ipu);
    d["instruction"] = e.instruction;
    d["iteration"] = e.iteration;
    d["begin_ns"] = e.begin_ns;
    d["end_ns"] = e.end_ns;
    const program::Program& p = *executor.session().program();
    const program::Instruction& instruction = p.ipus.at(e.ipu).instructions.at(e.instruction);
    d["kernel"] = instruction.kernel;
    d["step"] = program::to_string(instruction.opcode);
    d["io_tiles"] = p.ipus.at(e.ipu).io_of >= 0;
    if (instruction.origin >= 0) {
      const program::Origin& origin = p.origins.at(instruction.origin);
      d["op"] = origin.op;
      d["location"] = origin.location;
      d["joined"] = origin.joined;
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
  for (size_t i = 0; i < static_cast<size_t>(p.ipu_count()); ++i) {
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

// What a program is compiled for, whose replicas of a process need so many IPUs. "": the attached system; "model", "small model"; "ipu2" of
// one that is compiled for another machine: the attached system where that is of this kind and large enough, else as "model".
const target::Machine& machine_of(const std::string& name, int64_t ipus) {
  const target::System& attached = target::attached_system();
  const target::System* version = target::find_model(name, false);
  if (version == nullptr)
    return target::machine_of(name.empty() ? attached : target::model_system(name == "small model"));
  const bool is_attached = attached.ipu_version == version->ipu_version && ipus <= attached.num_ipus;
  return target::machine_of(is_attached ? attached : *version);
}

// Nothing: it fits, or needs so little that nobody looked closely. Else what does not; if `is_strict` an Error(kTileMemory), and what is
// so near a limit that the machine may decide otherwise.
std::optional<std::string> judge_memory(const tf::Executor& executor, const std::string& system,
                                        int64_t replicas, bool is_outlined, bool is_strict) {
  return without_gil([&]() -> std::optional<std::string> {
    const executable::Executable& program = executor.session().executable();
    const auto verdict = executable::judge_memory(
        program, machine_of(system, program.ipus_per_replica * replicas), {replicas, is_outlined, is_strict});
    if (!verdict) return std::nullopt;
    if (verdict->fits()) {
      if (is_strict && !verdict->is_certain()) return report::diagnosis(*verdict);
      return std::nullopt;
    }
    Error refusal(ErrorCode::kTileMemory, report::diagnosis(*verdict), kMemoryError);
    if (is_strict) throw refusal;
    return refusal.message();
  });
}

}  // namespace

void define_observation(py::class_<tf::Executor>& executor) {
  executor.def("counted_run", &counted_run, py::arg("inputs"))
      .def_property_readonly("ipus_reserved",
                             [](const tf::Executor& e) { return e.session().executable().ipus_reserved; })
      .def_property_readonly("first_ipu",
                             [](const tf::Executor& e) {
                               const int first = e.session().first_ipu();
                               return first < 0 ? py::object(py::none()) : py::object(py::int_(first));
                             })
      .def_property_readonly("compile_seconds",
                             [](const tf::Executor& e) { return e.session().executable().compile_seconds; })
      .def_property_readonly("is_dry", [](const tf::Executor& e) { return e.session().executable().is_dry; })
      .def_property_readonly("from_cache",
                             [](const tf::Executor& e) { return e.session().executable().from_cache; })
      .def(
          "ir_text", [](const tf::Executor& e) { return e.session().executable().ir_text; },
          "The IR after all passes, as this computer runs it.")
      .def(
          "machine_text",
          [](const tf::Executor& e) {
            return python::without_gil([&] { return e.session().executable().machine_text(); });
          },
          "The IR as the machine runs it: the same on every computer.")
      .def(
          "report",
          [](const tf::Executor& e, const std::string& machine, const std::string& system, int64_t samples,
             int64_t replicas, int64_t replicas_of_process, bool is_outlined) {
            return python::without_gil([&] {
              const executable::Executable& program = e.session().executable();
              const auto [text, json] = executable::report_on(
                  program,
                  machine.empty() ? machine_of(system, program.ipus_per_replica * replicas_of_process)
                                  : target::known_machine(machine),
                  {.replicas = replicas,
                   .replicas_of_machine = machine.empty() ? replicas_of_process : replicas,
                   .samples = samples,
                   .is_outlined = is_outlined});
              return std::pair(text, json);
            });
          },
          py::arg("machine"), py::arg("system"), py::arg("samples"), py::arg("replicas"),
          py::arg("replicas_of_process"), py::arg("outlined"),
          "The report on the program: (text, JSON). `machine`: a name or a path, which must have IPUs for all replicas; "
          "\"\": the system of judge_memory(), for the replicas of a process.")
      .def("program_text", [](const tf::Executor& e) { return e.session().program_text(); })
      .def("trace", on_session(&Session::set_trace), py::arg("enable"))
      .def("take_trace", &take_trace)
      .def("memory", &memory)
      .def("judge_memory", &judge_memory, py::arg("system"), py::arg("replicas"), py::arg("outlined"),
           py::arg("strict"))
      .def("statistics", [](const tf::Executor& e) { return e.session().executable().statistics.counts; });
}

}  // namespace ipu::bindings
