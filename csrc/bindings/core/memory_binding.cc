#include "bindings/core/memory_binding.h"

#include <pybind11/stl.h>

#include "ir/text/text.h"
#include "ops/verify.h"
#include "python/without_lock.h"
#include "target/known_machine.h"

namespace ipu::bindings {

namespace py = pybind11;
using py::literals::operator""_a;

py::dict shown(const report::Verdict& verdict) {
  py::list ipus, limits;
  for (const report::TileMemory& ipu : verdict.ipus) {
    py::dict classes;
    for (size_t i = 0; i < report::kMemoryClasses; ++i)
      classes[report::word(static_cast<report::MemoryClass>(i))] = ipu.bytes[i];
    py::list largest;
    for (const report::MemoryPiece& piece : ipu.largest)
      largest.append(
          py::make_tuple(piece.name, piece.type, report::word(piece.cause), piece.bytes, piece.line));
    ipus.append(py::dict("ipu"_a = ipu.ipu, "total"_a = ipu.total(), "code"_a = ipu.code(),
                         "bytes"_a = classes, "peak"_a = py::make_tuple(ipu.peak_op, ipu.peak_line),
                         "largest"_a = largest));
  }
  for (const report::Limit& limit : verdict.limits)
    limits.append(py::dict("kind"_a = report::word(limit.kind), "ipu"_a = limit.ipu,
                           "subject"_a = limit.subject, "needed"_a = limit.needed,
                           "allowed"_a = limit.allowed, "source"_a = limit.source));
  return py::dict("verdict"_a = report::word(verdict), "fits"_a = verdict.fits(),
                  "is_certain"_a = verdict.is_certain(), "bytes_per_tile"_a = verdict.bytes_per_tile,
                  "ipus"_a = ipus, "limits"_a = limits, "text"_a = report::diagnosis(verdict));
}

void bind_memory(py::module_& m) {
  m.def(
      "judge_memory",
      [](const std::string& text, const std::string& machine, int64_t replicas, bool is_outlined) {
        const target::Machine& known = target::known_machine(machine);
        const report::Verdict verdict = python::without_gil([&] {
          const std::unique_ptr<ir::Module> module = ir::parse(text, "machine", {.hashed_constants = true});
          ops::verify(*module, ir::Form::kRead);
          return report::judge(*module, known, {replicas, {is_outlined}});
        });
        return shown(verdict);
      },
      py::arg("text"), py::arg("machine"), py::arg("replicas") = 1, py::arg("outlined") = true,
      "Whether the program of a machine form fits a machine, the bytes of the fullest tile of each IPU by class, and the limits "
      "that are broken or near.");
}

}  // namespace ipu::bindings
