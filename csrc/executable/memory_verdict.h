// Whether a compiled program fits the machine, without looking closely where that is plain.
#pragma once

#include <optional>

#include "executable/compile.h"
#include "report/verdict.h"
#include "target/machine_of_system.h"

namespace ipu::executable {

struct VerdictOptions {
  int64_t replicas = 1;
  bool is_outlined = true;
  bool is_strict = false;  // looks closely in any case
};

// The one judgement: of warnings, refusals and, where nobody asks about another machine, reports. Nothing where there are IPUs for all
// replicas and all that lies in memory takes less than a quarter of it: the rest of a program, its code and what its ops need while
// they run, takes no more than the plans of products may. Also of an executable without a machine form.
std::optional<report::Verdict> judge_memory(const Executable& executable, const target::Machine& machine,
                                            const VerdictOptions& options);

}  // namespace ipu::executable
