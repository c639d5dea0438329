// Reductions over tiles and IPUs, and collectives of replicas.
#pragma once

#include <cstdint>

#include "target/machine.h"

namespace ipu::target {

// The sum of `operands` fp32 numbers on each of `tiles` tiles of an IPU, and then over IPUs by a tree.
double reduce_cycles(const Machine& machine, int64_t operands, int64_t tiles);
double reduce_seconds(const Machine& machine, int64_t operands, int64_t tiles, int64_t ipus);

// All-reduce of `bytes` of each of `replicas`, in a ring of a rack; beyond a rack of 64 IPUs also between `racks`, whose part each IPU
// sends through the gateway.
double ring_seconds(const Machine& machine, double bytes, int64_t replicas);
double rack_seconds(const Machine& machine, double bytes, int64_t replicas, int64_t racks);
double all_reduce_seconds(const Machine& machine, double bytes, int64_t replicas, int64_t ipus_of_a_replica);

}  // namespace ipu::target
