// From what the emulator knows of a system to all numbers of its machine.
#pragma once

#include "target/machine.h"

namespace ipu::target {

// The machine that a system is of: the one of its name with its tiles and IPUs, of a software model the chip that it stands for. It stays
// alive.
const Machine& machine_of(const System& system);
// The same but for the number of tiles. It stays alive, and is one for each machine and number.
const Machine& with_tiles(const Machine& machine, int tiles);
const Machine& with_tiles(Machine&& machine, int tiles) = delete;

}  // namespace ipu::target
