// What options say about where the tensors of a step live, and about the execution phases of a program.
#pragma once

#include <cstdint>

namespace ipu::frontends {

// One family of tensors: weights, optimizer state, accumulators or activations.
struct TensorLocation {
  bool off_chip = false;    // in streaming memory between uses
  bool is_sharded = false;  // each replica keeps a piece, all gather it on use
  bool loads_io = false;    // on the tiles reserved for I/O
  bool stores_io = false;
  // Smaller tensors stay whole on chip. The back end's values when the options say nothing.
  int64_t min_elements_off_chip = 2, min_elements_sharded = 8192;

  bool needs_io_tiles() const { return loads_io || stores_io; }
};

// When forward values leave the chip until they are read again (poptorch.Liveness).
enum class Liveness : uint8_t {
  kAlwaysLive = 0,
  kOffChipAfterFwd = 1,
  kOffChipAfterFwdNoOverlap = 2,
  kOffChipAfterEachPhase = 3,
};

struct PhaseOptions {
  bool is_parallel = false;  // two groups of IPUs alternate
  bool has_separate_backward = false;
  Liveness liveness = Liveness::kAlwaysLive;
  int64_t declared = 1;  // number of phases of the strategy
};

// Numbers of phases inside the program: forward phase i of the strategy is stride * i, the backward phase of
// forward number p is backward_base - p.
struct PhaseNumbers {
  int64_t stride = 1, backward_base = 0;
  int64_t phases = 1;  // what the back end is told
};
PhaseNumbers number_phases(const PhaseOptions& options);

}  // namespace ipu::frontends
