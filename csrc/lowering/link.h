// The code of an IPU put together: entry points, then subroutines, one behind the other.
#pragma once

#include <vector>

#include "program/program.h"

namespace ipu::lowering {

struct SubroutineCode {
  program::IpuProgram code;       // arena and counters from 0
  program::Subroutine interface;  // its name and parameters, by buffer of `code`
};

// Entry points share the bytes of the arena: what lies there does not outlive a run. The frame of a subroutine lies
// behind those of everything that may have called it, so subroutines that do not call each other share bytes too.
program::IpuProgram link(std::vector<program::IpuProgram> entries, std::vector<SubroutineCode> subroutines);

}  // namespace ipu::lowering
