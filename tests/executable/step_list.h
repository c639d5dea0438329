// Steps put in and taken out of an IPU's instructions; targets of the others and subroutines follow.
#pragma once

#include <utility>
#include <vector>

#include "program/program.h"

namespace ipu::testing_hostile {

inline void shift_targets(program::IpuProgram& ipu, size_t from, int by) {
  for (program::Instruction& step : ipu.instructions)
    if (step.target >= static_cast<int>(from)) step.target += by;
  for (program::Subroutine& subroutine : ipu.subroutines)
    if (subroutine.begin >= static_cast<int>(from)) subroutine.begin += by;
}

inline void erase_at(program::IpuProgram& ipu, size_t at) {
  ipu.instructions.erase(ipu.instructions.begin() + static_cast<ptrdiff_t>(at));
  shift_targets(ipu, at + 1, -1);
}

inline void insert_at(program::IpuProgram& ipu, size_t at, program::Instruction step) {
  shift_targets(ipu, at, 1);
  ipu.instructions.insert(ipu.instructions.begin() + static_cast<ptrdiff_t>(at), std::move(step));
}

// Instructions [at, end) become the body of a loop.
inline void put_in_loop(program::IpuProgram& ipu, size_t at, size_t end, int64_t trip) {
  std::vector<program::Instruction>& code = ipu.instructions;
  program::Instruction loop, finish;
  loop.opcode = program::Opcode::kLoop;
  finish.opcode = program::Opcode::kEndLoop;
  loop.counter = finish.counter = ipu.counters++;
  loop.trip = trip;
  insert_at(ipu, end, finish);
  insert_at(ipu, at, loop);
  code[at].target = static_cast<int>(end) + 1;
  code[end + 1].target = static_cast<int>(at);
}

}  // namespace ipu::testing_hostile
