// Pipeline stages from blocks: which block is in which stage on which IPU, counted over the captured graph.
// They become part of the module's strategy, which the pass `place` reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/common/step_builder.h"
#include "ir/strategy.h"

namespace ipu::frontends {

struct StagePlan {
  std::vector<std::string> blocks;  // in order of first appearance
  std::vector<int64_t> stages;      // of each block: 0 ... forward_stages - 1
  std::vector<int64_t> ipus;
  std::vector<int64_t> phases;  // of each block, as the program numbers them; 0 unless phased
  int forward_stages = 1;       // stages that run; consecutive ones on one IPU are one
  int counted_stages = 1;       // 1 + changes of IPU in order of capture: what accumulation must cover
};

// Throws Error(kCapture) for a block without a place.
StagePlan plan_stages(const ir::Graph& forward, const std::map<std::string, StepOptions::Placement>& places);

// Gives blocks their phases; stages then are the phases in order. Throws Error(kOption) for a block in no phase,
// and for a phase on IPUs of the other parity (parallel phases).
void plan_phases(StagePlan& plan, const StepOptions& options);

// Throws Error(kGradientAccumulationTooSmall) or Error(kDeviceIterationsTooSmall).
void check_pipeline_fill(const StagePlan& plan, const StepOptions& options);

// What the passes will read: the plan and what the options say about schedule and recomputation.
ir::Strategy strategy_of(const StagePlan& plan, const StepOptions& options);

}  // namespace ipu::frontends
