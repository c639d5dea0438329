// The part of the proof that follows control flow: what is defined before it is used.
#pragma once

#include <optional>

#include "program/program.h"

namespace ipu::emulator {

struct UndefinedExternal {
  int instruction, buffer;
  bool writes = false;  // to it; else reads
};
// The first instruction that reads or writes an external buffer which some way to it from the beginning of its entry
// point or subroutine has not defined.
std::optional<UndefinedExternal> find_undefined_external(const program::IpuProgram& code);

}  // namespace ipu::emulator
