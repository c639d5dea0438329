// Steps put in and taken out of a list of instructions, the targets of the others following.
#pragma once

#include <utility>
#include <vector>

#include "program/program.h"

namespace ipu::testing_hostile {

inline void shift_targets(std::vector<program::Instruction>& code, size_t from, int by) {
  for (program::Instruction& step : code)
    if (step.target >= static_cast<int>(from)) step.target += by;
}

inline void erase_at(std::vector<program::Instruction>& code, size_t at) {
  code.erase(code.begin() + static_cast<ptrdiff_t>(at));
  shift_targets(code, at + 1, -1);
}

inline void insert_at(std::vector<program::Instruction>& code, size_t at, program::Instruction step) {
  shift_targets(code, at, 1);
  code.insert(code.begin() + static_cast<ptrdiff_t>(at), std::move(step));
}

// Instructions [at, end) become the body of a loop.
inline void put_in_loop(program::IpuProgram& ipu, size_t at, size_t end, int64_t trip) {
  std::vector<program::Instruction>& code = ipu.instructions;
  program::Instruction loop, finish;
  loop.opcode = program::Opcode::kLoop;
  finish.opcode = program::Opcode::kEndLoop;
  loop.counter = finish.counter = ipu.counters++;
  loop.trip = trip;
  insert_at(code, end, finish);
  insert_at(code, at, loop);
  code[at].target = static_cast<int>(end) + 1;
  code[end + 1].target = static_cast<int>(at);
}

}  // namespace ipu::testing_hostile
