#include "program/check_io_tiles.h"

#include <fmt/core.h>

#include "support/error.h"
#include "support/interruption.h"

namespace ipu::program {
namespace {

// Control that no value decides is needed to move the right number of elements.
bool is_transfer(Opcode code) {
  switch (code) {
    case Opcode::kLoop:
    case Opcode::kEndLoop:
    case Opcode::kBranchUnlessCounter:
    case Opcode::kJump:
    case Opcode::kStreamLoad:
    case Opcode::kStreamStore:
    case Opcode::kPush:
    case Opcode::kPop:
    case Opcode::kRelease:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_io_tiles(const Program& program) {
  const int processors = static_cast<int>(program.ipus.size()), ipus = program.ipu_count();
  auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidProgram, "invalid program: " + what);
  };
  // Those that load and those that store, for each way to overlap.
  constexpr int kMostOfAnIpu = 6;
  if (processors - ipus > kMostOfAnIpu * static_cast<int64_t>(ipus))
    refuse(fmt::format("{} programs of I/O tiles for {} IPUs, which have at most {} each", processors - ipus,
                       ipus, kMostOfAnIpu));
  for (int p = 0; p < processors; ++p) {
    const IpuProgram& code = program.ipus[static_cast<size_t>(p)];
    if (p < ipus ? code.io_of != -1 : code.io_of < 0 || code.io_of >= ipus)
      refuse(fmt::format("part {} of {} runs on {}; the programs of {} IPUs come first", p, processors,
                         processor_name(program, p), ipus));
    if (code.io_of < 0) continue;
    for (size_t n = 0; n < code.instructions.size(); ++n) {
      poll_interruption();
      if (!is_transfer(code.instructions[n].opcode))
        refuse(describe(program, p, static_cast<int>(n)) + ": I/O tiles only move elements");
    }
  }
}

}  // namespace ipu::program
