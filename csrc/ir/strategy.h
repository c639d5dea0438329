// How a program is spread over IPUs and over time, as its front end chose: the attributes of a module that passes
// read. Written once by the step builder, read whole; the text has them as `module {forward_stages=2, ...}`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace ipu::ir {

enum class Schedule : uint8_t { kSharded, kPipelined, kPhased };

// What the backward pass makes again instead of keeping it (docs/recomputation.md). In PopART's order.
enum class RecomputationMode : uint8_t { kNone, kStandard, kNormOnly, kPipeline, kAll };

std::string_view to_string(Schedule schedule);       // "sharded", "pipelined", "phased"
std::string_view to_string(RecomputationMode mode);  // "none", "standard", "norm_only", "pipeline", "all"
// The mode of PopART's number, 0 to 4. Error(kOption) for another.
RecomputationMode recomputation_mode(int64_t popart_number);
// Error(kOption) for another word than those above.
Schedule schedule_from_string(std::string_view text);

struct Strategy {
  // Tables of equal length: block → stage (0 ... forward_stages - 1) → IPU, in order of first appearance.
  std::vector<std::string> blocks;
  std::vector<int64_t> block_stages, block_ipus;
  std::vector<int64_t> block_phases;  // phased only, else empty: numbers of the machine, -1: in none
  int64_t backward_phase_base = 0;    // the backward pass of phase p runs in phase base - p
  int64_t forward_stages = 1;
  Schedule schedule = Schedule::kSharded;
  RecomputationMode recomputation = RecomputationMode::kNone;
  // Forward values of so many elements that the backward pass reads wait in streaming memory; -1: none does.
  int64_t offload_activations = -1;
  bool offload_after_each_phase = false;  // those that later forward phases read, too
  bool activations_load_io = false, activations_store_io = false;  // over I/O tiles
  int64_t io_tiles = 0;        // of each IPU, that only exchange with the host and streaming memory
  int64_t prefetch_depth = 1;  // elements of an overlapped input that wait on I/O tiles for their turn
  // Precision (docs/types.md): f16 results of arithmetic are rounded at random; partial sums of f16 products and of
  // f16 convolutions are f16.
  bool stochastic_rounding = false, half_products = false, half_convolutions = false;

  bool operator==(const Strategy&) const = default;
};

// In `settings.outline` of an op: where those of its results wait that the backward pass reads, whatever the strategy says of
// all. kOnChip, or a text that begins with kOffChip and may name the I/O tiles.
inline constexpr char kOutputLocation[] = "output_location";
inline constexpr char kOnChip[] = "on_chip", kOffChip[] = "off_chip", kLoadsIo[] = " load_io",
                      kStoresIo[] = " store_io";

// Attributes that are not there have their defaults. Error(kInvalidIr) for one of another kind, an unknown word, or
// tables that differ in length.
Strategy strategy_of(const Module& module);
// Writes what differs from the default, and erases what does not.
void set_strategy(const Strategy& strategy, Module& module);

}  // namespace ipu::ir
