#include "target/passes/vertex_loops.h"

#include <algorithm>
#include <tuple>

#include "target/products/inner_loops.h"

namespace ipu::target {

double vertex_loop_cycles(const Machine& machine, double instructions, int64_t iterations, int64_t unrolled) {
  return machine["workers"] * static_cast<double>(iterations) *
         (instructions + machine["loop_instructions"] / static_cast<double>(unrolled));
}

double memory_bytes_per_second(const Machine& machine, double bytes, double instructions, int64_t unrolled) {
  const double cycles = vertex_loop_cycles(machine, instructions, 1, unrolled) / machine["workers"];
  return machine["tiles"] * machine["clock_hz"] * bytes / cycles;
}

double load_bytes_per_second(const Machine& machine, int64_t bits) {
  return machine["tiles"] * machine["clock_hz"] * static_cast<double>(bits) / 8;
}

namespace {

StencilCycles part_cycles(const Machine& machine, const Stencil& s, int64_t rows, int64_t columns) {
  StencilCycles cycles;
  cycles.part_rows = rows;
  cycles.part_columns = columns;
  cycles.tiles = divide_up(s.rows, rows) * divide_up(s.columns, columns);
  // Loads, products and sums with an address each, a store.
  const double instructions = static_cast<double>(s.points + (s.points + 2) + 1);
  const int64_t cells = divide_up(rows * columns, machine.whole("workers"));
  cycles.compute = vertex_loop_cycles(machine, instructions, cells * s.vectors, 1);
  cycles.control = machine["phase_cycles"];
  if (cycles.tiles == 1) return cycles;
  // Columns of the edge are as many fragments as rows, rows of the edge one each.
  const double fragments = static_cast<double>(2 * rows + 2);
  const double halo = static_cast<double>(2 * (rows + columns) * s.cell_bytes);
  cycles.pack = fragments * machine["pack_cycles"];
  cycles.unpack = fragments * machine["unpack_cycles"];
  cycles.exchange =
      halo / machine["exchange_bytes_per_cycle"] + machine["pair_cycles"] - machine["sync_cycles"];
  if (s.ipus > 1) cycles.links = machine["several_ipus_step_cycles"];
  return cycles;
}

}  // namespace

StencilCycles stencil_cycles(const Machine& machine, const Stencil& s) {
  const int64_t tiles = machine.whole("tiles") * s.ipus;
  int64_t rows = s.rows, columns = s.columns;
  for (int64_t down = 1; down <= std::clamp<int64_t>(s.rows / s.least_rows, 1, tiles); ++down) {
    const int64_t across = std::clamp<int64_t>(s.columns / s.least_columns, 1, tiles / down);
    const int64_t height = divide_up(s.rows, down), width = divide_up(s.columns, across);
    if (std::make_tuple(height + width, height * width) >= std::make_tuple(rows + columns, rows * columns))
      continue;
    rows = height;
    columns = width;
  }
  return part_cycles(machine, s, rows, columns);
}

}  // namespace ipu::target
