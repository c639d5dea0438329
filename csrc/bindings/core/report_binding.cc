#include "bindings/core/report_binding.h"

#include <pybind11/stl.h>

#include "executable/report_file.h"
#include "ir/text/text.h"
#include "ops/verify.h"
#include "report/program_time.h"
#include "target/known_machine.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using target::known_machine;
using py::literals::operator""_a;

py::dict dict_of(const report::Cycles& cycles) {
  return py::dict("compute"_a = cycles.compute, "exchange"_a = cycles.exchange,
                  "overhead"_a = cycles.overhead, "links"_a = cycles.links, "host"_a = cycles.host,
                  "streaming"_a = cycles.streaming, "total"_a = cycles.total());
}

py::list list_of(const std::vector<report::TimeOf>& times) {
  py::list list;
  for (const report::TimeOf& of : times) {
    py::dict entry = dict_of(of.cycles);
    entry["what"] = of.what;
    entry["executions"] = of.executions;
    list.append(entry);
  }
  return list;
}

// Read once, priced on any machine.
std::unique_ptr<ir::Module> machine_form(const std::string& text) {
  std::unique_ptr<ir::Module> module = ir::parse(text, "machine form", {.hashed_constants = true});
  ops::verify(*module, ir::Form::kRead);
  return module;
}

py::dict program_time(const ir::Module& module, const std::string& machine, const std::string& entry,
                      int64_t replicas) {
  report::ProgramTime time;
  {
    const target::Machine& known = known_machine(machine);
    py::gil_scoped_release release;
    time = report::program_time(module, entry, known, replicas);
  }
  py::list ipus;
  for (const report::IpuTime& ipu : time.ipus) {
    py::dict of = dict_of(ipu.cycles);
    of["ipu"] = ipu.ipu;
    of["waiting"] = ipu.waiting;
    ipus.append(of);
  }
  return py::dict("cycles"_a = time.cycles, "seconds"_a = time.seconds, "is_maximum"_a = time.is_maximum,
                  "maximum_cycles"_a = time.maximum_cycles, "operations"_a = time.operations, "ipus"_a = ipus,
                  "kinds"_a = list_of(time.kinds), "lines"_a = list_of(time.lines),
                  "modules"_a = list_of(time.modules), "guesses"_a = list_of(time.guesses));
}

}  // namespace

void bind_reports(py::module_& m) {
  py::class_<ir::Module>(m, "MachineForm")
      .def(py::init(&machine_form), "text"_a, py::call_guard<py::gil_scoped_release>())
      .def("time", &program_time, "machine"_a, "entry"_a = "main", "replicas"_a = 1,
           "Cycles and seconds of a run: by IPU, kind of operation, line of the user and module.");
  m.def(
      "report_file",
      [](const std::string& path, const std::string& machine, int64_t replicas) {
        py::gil_scoped_release release;
        const auto [text, json] = executable::report_on_file(path, machine, {.replicas = replicas});
        return std::pair(text, json);
      },
      "path"_a, "machine"_a = "", "replicas"_a = 0,
      "The report on an executable or a machine form in a file: (text, JSON). `machine`: a name or a path, \"\" for the "
      "attached system; 0 replicas: those of the program.");
}

}  // namespace ipu::bindings
