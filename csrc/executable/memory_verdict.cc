#include "executable/memory_verdict.h"

#include <algorithm>

namespace ipu::executable {

std::optional<report::Verdict> judge_memory(const Executable& executable, const target::Machine& machine,
                                            const VerdictOptions& options) {
  if (executable.machine_form == nullptr) return std::nullopt;
  const MachineForm& form = executable.machine();
  if (!options.is_strict) {
    const double quarter = machine["tiles"] * machine["bytes_per_tile"] / 4, stream = machine["stream_bytes"];
    const auto most = static_cast<double>(form.most_memory());
    const bool has_ipus =
        static_cast<double>(executable.ipus_per_replica * options.replicas) <= machine["ipus"];
    if (has_ipus && most <= std::min(quarter, stream)) return std::nullopt;
    const bool is_small = std::ranges::all_of(form.memory(), [&](const report::IpuMemory& of) {
      return static_cast<double>(of.total()) <= quarter;
    });
    if (has_ipus && is_small && std::ranges::all_of(form.module().streams(), [&](const ir::Stream& of) {
          return static_cast<double>(of.type.bytes()) <= stream;
        }))
      return std::nullopt;
  }
  return report::judge(form.module(), machine, {options.replicas, {options.is_outlined}});
}

}  // namespace ipu::executable
