// Replicas: how many a module is written for, and what the host sees of a variable that groups hold separately
// or in shards. Not here: running them (ops, emulator).
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace ipu::ir {

// Module attribute `replicas`; 1 without it. With `processes` they are counted over all processes, each of
// which runs replicas / processes of them in a row.
int64_t replica_count(const Module& module);

// Elements of one shard: a value is flattened, padded with zeros to a multiple of `shards`, and cut.
int64_t shard_elements(const Shape& shape, int64_t shards);

// The value as the host gives and takes it: the groups in front when there is more than one, then the shape
// before sharding.
Shape host_shape(const Variable& variable, int64_t replicas);

}  // namespace ipu::ir
