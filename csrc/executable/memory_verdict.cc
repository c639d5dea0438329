#include "executable/memory_verdict.h"

#include <algorithm>

namespace ipu::executable {

std::optional<report::Verdict> judge_memory(const Executable& executable, const target::Machine& machine,
                                            const VerdictOptions& options) {
  if (executable.machine_form == nullptr) return std::nullopt;
  const MachineForm& form = executable.machine();
  if (!options.is_strict) {
    const double most = std::min(machine["tiles"] * machine["bytes_per_tile"] / 4, machine["stream_bytes"]);
    if (static_cast<double>(form.most_memory()) <= most) return std::nullopt;
    const bool is_small = std::ranges::all_of(
        form.memory(), [&](const report::IpuMemory& of) { return static_cast<double>(of.total()) <= most; });
    if (is_small) return std::nullopt;
  }
  return report::judge(form.module(), machine, {options.replicas, {options.is_outlined}});
}

}  // namespace ipu::executable
