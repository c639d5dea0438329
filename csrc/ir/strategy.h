// How a program is spread over IPUs and over time, as its front end chose: the attributes of a module that passes
// read. Written once by the step builder, read whole; the text has them as `module {forward_stages=2, ...}`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace ipu::ir {

enum class Schedule : uint8_t { kSharded, kPipelined };

// What the backward pass makes again instead of keeping it (docs/recomputation.md). In PopART's order.
enum class RecomputationMode : uint8_t { kNone, kStandard, kNormOnly, kPipeline, kAll };

std::string_view to_string(Schedule schedule);       // "sharded", "pipelined"
std::string_view to_string(RecomputationMode mode);  // "none", "standard", "norm_only", "pipeline", "all"
// The mode of PopART's number, 0 to 4. Error(kOption) for another.
RecomputationMode recomputation_mode(int64_t popart_number);
// Error(kOption) for another word than those above.
Schedule schedule_from_string(std::string_view text);

struct Strategy {
  // Tables of equal length: block → stage (0 ... forward_stages - 1) → IPU, in order of first appearance.
  std::vector<std::string> blocks;
  std::vector<int64_t> block_stages, block_ipus;
  int64_t forward_stages = 1;
  Schedule schedule = Schedule::kSharded;
  RecomputationMode recomputation = RecomputationMode::kNone;

  bool operator==(const Strategy&) const = default;
};

// Attributes that are not there have their defaults. Error(kInvalidIr) for one of another kind, an unknown word, or
// tables that differ in length.
Strategy strategy_of(const Module& module);
// Writes what differs from the default, and erases what does not.
void set_strategy(const Strategy& strategy, Module& module);

}  // namespace ipu::ir
