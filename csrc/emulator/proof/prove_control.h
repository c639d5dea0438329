// The parts of the proof that follow control flow: what is defined before it is used, and how often streams
// are used in a run.
#pragma once

#include <optional>

#include "program/program.h"

namespace ipu::emulator {

struct UndefinedExternal {
  int instruction, buffer;
};
// The first instruction that reads an external buffer which some way to it has not defined.
std::optional<UndefinedExternal> find_undefined_external(const program::IpuProgram& code);

// Throws Error(kInvalidProgram) where a stream is loaded or stored more often in every run than it has
// elements. IPUs whose steps depend on data are left to the count that is kept while running.
void prove_stream_counts(const program::Program& program);

}  // namespace ipu::emulator
