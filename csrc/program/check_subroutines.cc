#include "program/check_subroutines.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"
#include "support/interruption.h"

namespace ipu::program {

SubroutineTable check_subroutines(const IpuProgram& code, int ipu) {
  const std::vector<Subroutine>& all = code.subroutines;
  const int instructions = static_cast<int>(code.instructions.size());
  const int buffers = static_cast<int>(code.buffers.size());
  SubroutineTable table;
  table.owner.assign(code.buffers.size(), -1);
  table.is_output.assign(code.buffers.size(), 0);
  table.counter_owner.assign(static_cast<size_t>(std::max(code.counters, 0)), -1);
  for (size_t s = 0; s < all.size(); ++s) {
    auto fits = [&](bool condition, const std::string& what) {
      if (!condition)
        throw Error(ErrorCode::kInvalidProgram, fmt::format("invalid program: IPU {}, subroutine {} ({}): {}",
                                                            ipu, s, all[s].name, what));
    };
    const int end = s + 1 < all.size() ? all[s + 1].begin : instructions;
    fits(all[s].begin >= 0 && all[s].begin < end && end <= instructions,
         "its code is not behind that of the one before");
    fits(code.instructions[end - 1].opcode == Opcode::kReturn, "it does not end with a return");
    for (const auto* list : {&all[s].inputs, &all[s].outputs})
      for (int b : *list) {
        fits(b >= 0 && b < buffers && table.owner[b] < 0 && code.buffers[b].storage == Storage::kParameter,
             fmt::format("buffer {} is no parameter, or is one already", b));
        table.owner[b] = static_cast<int>(s);
        table.is_output[b] = list == &all[s].outputs;
      }
    for (int i = all[s].begin; i < end; ++i) {
      poll_interruption();
      const Instruction& step = code.instructions[i];
      if (step.opcode != Opcode::kLoop || step.counter < 0 || step.counter >= code.counters) continue;
      int& owner = table.counter_owner[static_cast<size_t>(step.counter)];
      fits(owner < 0 || owner == static_cast<int>(s),
           fmt::format("instruction {} moves counter {} of subroutine {}", i, step.counter, owner));
      owner = static_cast<int>(s);
    }
  }
  return table;
}

}  // namespace ipu::program
