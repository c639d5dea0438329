// The memory of the fullest tile of each IPU by cause, from the machine form, the work of its ops and the numbers of a machine
// (docs/device-model.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "target/machine.h"

namespace ipu::report {

enum class MemoryClass : uint8_t {
  // Alive all the time.
  kWeights,
  kAccumulators,
  kOptimizerState,
  kStashes,
  kConstants,
  // At the peak.
  kValues,
  kCopies,       // of operands that do not come in the layout of a product's plan
  kTemporaries,  // of the op that runs: what it receives, partial sums
  // The program.
  kVertexState,
  kVertexCode,
  kExchangeCode,
  kControlCode,
  kStacks,  // and run time
  kPadding  // and what the fullest tile has more than the mean
};
constexpr size_t kMemoryClasses = 14;
const char* word(MemoryClass cause);

// Something that lies in memory.
struct MemoryPiece {
  std::string name, type, line;  // "fc.weight", "f32[2,8]", "model.py:41"
  MemoryClass cause = MemoryClass::kValues;
  double bytes = 0;  // of all tiles
};

// All bytes are those of one tile, the fullest of its IPU.
struct TileMemory {
  int ipu = 0;
  std::array<double, kMemoryClasses> bytes{};
  std::vector<MemoryPiece> largest;  // at the peak, most bytes first
  std::string peak_op, peak_line;    // that runs then
  double kept_for_gradients = 0;     // stashes, and values of the forward pass while a gradient is computed
  double most_received = 0;          // by one op in its exchanges
  std::string most_received_by;

  double of(MemoryClass cause) const { return bytes[static_cast<size_t>(cause)]; }
  double& of(MemoryClass cause) { return bytes[static_cast<size_t>(cause)]; }
  double total() const;
  double code() const;  // that must lie where code can
};

struct MemoryOptions {
  bool is_outlined = true;     // ops that come again in the order of earlier ones run the code of those
  double most_proportion = 1;  // of all products, whatever availableMemoryProportion they have
};

// Of each IPU in use, in order. Throws as tile_memory.
std::vector<TileMemory> memory_map(const ir::Module& machine_form, const target::Machine& machine,
                                   const MemoryOptions& options = {});

}  // namespace ipu::report
