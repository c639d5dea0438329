// How many elements of each stream one run of an entry point moves, and how many bytes between the chip and
// streaming memory, from the loops around the instructions that move them.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace ipu::program {

struct StreamUse {
  int64_t elements = 0;  // of one replica, at most; INT64_MAX: more than can be counted
  bool is_exact = true;  // false: values decide how many there are

  bool is_used() const { return elements > 0; }
};

// By stream. Expects what check_program checks of control: loops nest, branches go forward. Linear in the
// instructions.
std::vector<StreamUse> stream_uses(const Program& program, int entry);

// Bytes that one replica moves in a run, at most; INT64_MAX: more than can be counted.
struct Traffic {
  int64_t remote_loaded = 0, remote_stored = 0;  // from and to streaming memory
  int64_t gathered = 0;                          // values put together from the shards of the replicas, whole
  bool is_exact = true;                          // false: values decide
};
Traffic traffic(const Program& program, int entry);

}  // namespace ipu::program
