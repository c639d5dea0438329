// Vertices that users write in C++: one instruction for each load, operation and store, which the compiler does not pair, and what an
// iteration takes besides.
#pragma once

#include <cstdint>

#include "target/machine.h"

namespace ipu::target {

// Of a tile whose busiest worker does `iterations`, each of `instructions`; a loop unrolled so often pays for an iteration once.
double vertex_loop_cycles(const Machine& machine, double instructions, int64_t iterations, int64_t unrolled);
// Bytes from and to the memories of all tiles of an IPU by such a loop in all workers.
double memory_bytes_per_second(const Machine& machine, double bytes, double instructions, int64_t unrolled);
// By loads alone, of so many bits, in assembly.
double load_bytes_per_second(const Machine& machine, int64_t bits);

// A stencil over a grid, of which each tile has a part of some rows and columns.
struct Stencil {
  int64_t rows = 1, columns = 1;
  int64_t least_rows = 1, least_columns = 1;  // of a part
  int64_t points = 9;                         // cells that a new one is made of
  int64_t cell_bytes = 4, vectors = 1;        // of a cell
  int64_t ipus = 1;
};
// Cycles of a step by cause.
struct StencilCycles {
  int64_t part_rows = 0, part_columns = 0, tiles = 0;
  double compute = 0, pack = 0, unpack = 0, exchange = 0, links = 0, control = 0;
  double total() const { return compute + pack + unpack + exchange + links + control; }
};
// Parts are as near to squares as the tiles allow: those of the shortest edge.
StencilCycles stencil_cycles(const Machine& machine, const Stencil& stencil);

}  // namespace ipu::target
