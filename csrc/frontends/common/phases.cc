// Execution phases: how the phases of a strategy are numbered in the program, and what blocks may not do.
#include <fmt/core.h>

#include <string>

#include "frontends/common/stages.h"
#include "support/wording.h"

namespace ipu::frontends {
namespace {

std::string shown(const std::string& block) {
  return block.empty() ? std::string("what comes before the first block") : fmt::format("block '{}'", block);
}

[[noreturn]] void wrong_parity(const std::string& block, int64_t phase, int64_t ipu) {
  throw worded(
      ErrorCode::kOption, "phase_parity",
      "invalid IPU for a phase: phase {phase} is on IPU {ipu} ({block}). Of parallel phases the even "
      "ones run on even IPUs and the odd ones on odd IPUs, so that one group computes while the other "
      "loads and stores.",
      {{"phase", phase}, {"ipu", ipu}, {"block", shown(block)}, {"parity", phase % 2 == 0 ? "even" : "odd"}});
}

}  // namespace

PhaseNumbers number_phases(const PhaseOptions& options) {
  constexpr int64_t kOffChip = 4,
                    kSeparate = 2;  // phases between the last forward and the first backward one
  PhaseNumbers numbers;
  if (options.liveness == Liveness::kOffChipAfterFwdNoOverlap) numbers.stride = 2;
  if (options.liveness == Liveness::kOffChipAfterEachPhase) numbers.stride = 4;
  const int64_t last = numbers.stride * (options.declared - 1);
  int64_t between = options.has_separate_backward ? kSeparate : 0;
  if (options.liveness != Liveness::kAlwaysLive) between = kOffChip;
  numbers.backward_base = 2 * last + between;
  numbers.phases = last + (between == 0 ? 1 : between);
  return numbers;
}

void plan_phases(StagePlan& plan, const StepOptions& options) {
  const PhaseNumbers numbers = number_phases(options.phases);
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    const std::string& block = plan.blocks[i];
    auto at = options.places.find(block);
    const int64_t phase = at == options.places.end() ? 0 : at->second.phase;
    if (phase < 0 || phase >= options.phases.declared)
      throw Error(ErrorCode::kOption,
                  fmt::format("invalid phase: {} is in no phase; the execution strategy has phases 0 to {}.\n"
                              "  try:      name the block in one of the phases of the strategy",
                              shown(block), options.phases.declared - 1));
    if (options.phases.is_parallel && phase % 2 != plan.ipus[i] % 2) wrong_parity(block, phase, plan.ipus[i]);
    plan.phases[i] = numbers.stride * phase;
    plan.stages[i] = plan.phases[i];
  }
  plan.forward_stages = plan.counted_stages = 1;
}

}  // namespace ipu::frontends
