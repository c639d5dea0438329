// The part of check_program about variables: what the host writes and reads is as large as what is stored.
#pragma once

#include "program/program.h"

namespace ipu::program {

// Throws Error(kInvalidProgram) naming the variable: its shape on the host, its stored spec and its initial
// value do not agree. Indices of constants are in range (check_program has looked).
void check_variables(const Program& program);

}  // namespace ipu::program
