// The part of check_program about subroutines: where their code lies, and whose parameters buffers are.
#pragma once

#include <vector>

#include "program/program.h"

namespace ipu::program {

struct SubroutineTable {
  std::vector<int> owner;          // by buffer: the subroutine whose parameter it is; -1: none
  std::vector<char> is_output;     // by buffer
  std::vector<int> counter_owner;  // by counter: the subroutine whose loops move it; -1: none
};

// Throws Error(kInvalidProgram) naming the subroutine: code that does not lie behind that of the one before or does not
// end with a return, parameters that are none or those of another, counters that another moves. `ipu` is for messages.
SubroutineTable check_subroutines(const IpuProgram& code, int ipu);

}  // namespace ipu::program
