// Part of check_program: what I/O tiles that work beside their IPU run.
#pragma once

#include "program/program.h"

namespace ipu::program {

// Throws Error(kInvalidProgram): an IPU behind I/O tiles, I/O tiles of no IPU, or a step on them that does anything but
// move elements between streams and rings.
void check_io_tiles(const Program& program);

}  // namespace ipu::program
