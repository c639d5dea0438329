// The machine without the tiles of each IPU that a program reserves for I/O.
#pragma once

#include <algorithm>

#include "ir/strategy.h"
#include "target/machine_of_system.h"

namespace ipu::report {

// One tile is left at least: that there are more I/O tiles than tiles is for the verdict to say.
inline const target::Machine& computing_tiles(const ir::Module& module, const target::Machine& machine) {
  const int64_t tiles = machine.whole("tiles");
  const int64_t io_tiles = ir::strategy_of(module).io_tiles;
  return io_tiles == 0
             ? machine
             : target::with_tiles(machine, static_cast<int>(std::max<int64_t>(tiles - io_tiles, 1)));
}

}  // namespace ipu::report
