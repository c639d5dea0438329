// What one replica keeps in the memory of its IPUs and in streaming memory, from the machine form alone: tables, and
// the values that live side by side when the ops of each IPU run in the order of the list.
//
// Bytes are logical, those of types: no padding, vertices, code, or buffers of an exchange. Sharing of memory is what the
// machine does without asking: a view lies in its operand; a result takes over an operand of as many bytes that nobody
// reads again, where its op can work in place; what a loop carries lies in one place; an update of a variable is made in
// the variable.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace ipu::report {

struct IpuMemory {
  int ipu = 0;  // within the replica
  int64_t variables = 0, constants = 0, rings = 0;
  int64_t values = 0;  // alive at the peak

  int64_t total() const { return variables + constants + rings + values; }
  bool operator==(const IpuMemory&) const = default;
};

// The IPUs of a replica that the program uses, in order; one at least.
std::vector<int> ipus_of(const ir::Module& module);

// Of each IPU in use, in order; one IPU at least. `module` is legal in the functional form. Linear in its ops. Throws
// Error(kInvalidProgram) if a sum does not fit 64 bits.
std::vector<IpuMemory> tile_memory(const ir::Module& module);

// No IPU keeps more than so many bytes, whatever the passes of the machine do to `fork`: all values at once, in a pipeline as often as
// its longest ring. INT64_MAX: more than can be counted.
int64_t most_memory(const ir::Module& fork);

// Streaming memory: the entries of all remote buffers.
int64_t streaming_memory(const ir::Module& module);

// The IPU where a variable lies, and the one that keeps the elements of a ring: its reader.
int ipu_of(const ir::Variable& variable);
int ipu_of(const ir::Ring& ring);
int64_t bytes_of(const ir::Ring& ring);

}  // namespace ipu::report
