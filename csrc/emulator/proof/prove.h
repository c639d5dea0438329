// The proof that a program touches no byte that is not its own. A program from a file has no history: nobody
// vouches for its numbers, though its checksums are right. Before it runs, each instruction is held against
// what it says of itself: a kernel's statement of what it reads and writes (kernels/footprint.h), the size of
// an element of its stream or ring. What is not proven is not run. docs/security.md says what follows.
#pragma once

#include "program/program.h"

namespace ipu::emulator {

// Throws Error(kInvalidProgram) naming the instruction. Takes a program that check_program and check_plan
// accept. Proven are, for each IPU:
// - every kernel has a statement, accepts its operands, and touches bytes of its buffers only, aligned to
//   their elements;
// - copies between what the host gives of a variable and its stored form stay in both;
// - a buffer in the host's or a ring's memory is no larger than the element that defines it, and is defined
//   on every way to every use;
// - what must be loaded and stored in a run whatever the data are is not more than the streams have.
// How often branches on data load and store is counted while running (HostStream::has_element).
// Cost: linear in the instructions, but for one word per 64 external buffers at each branch.
void prove_program(const program::Program& program);

}  // namespace ipu::emulator
