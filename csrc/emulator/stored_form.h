// A variable between the plain form the host gives and takes and the form it is stored in.
#pragma once

#include <cstddef>

#include "program/program.h"

namespace ipu::emulator {

// Convert between the plain and the stored form of a variable. If the variable is in shards, `stored` holds shard
// number `shard`: the first function reads it from the whole value, the second writes its part of the whole value.
void plain_to_stored(const program::Variable& variable, int64_t shard, const std::byte* plain,
                     std::byte* stored);
void stored_to_plain(const program::Variable& variable, int64_t shard, const std::byte* stored,
                     std::byte* plain);

// Throws Error(kInvalidProgram) unless both copies stay within the bytes of the two forms.
void prove_forms(const program::Variable& variable);

}  // namespace ipu::emulator
