// From what the emulator knows of a system to all numbers of its machine.
#pragma once

#include "target/machine.h"

namespace ipu::target {

// The machine that a system is of; of a software model the chip that it stands for, with its tiles and IPUs. It stays alive.
const Machine& machine_of(const System& system);

}  // namespace ipu::target
