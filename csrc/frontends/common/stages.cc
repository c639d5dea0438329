// How many stages a captured graph makes, and whether a run has enough micro-batches to fill them. Pure
// counting: the placement of single ops, and the check that data never flows back to an earlier stage, are
// the pass `place`.
#include "frontends/common/stages.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ops/replicable.h"
#include "support/wording.h"

namespace ipu::frontends {
namespace {

std::string count_of(int64_t n, const std::string& noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace

StagePlan plan_stages(const ir::Graph& forward, const std::map<std::string, StepOptions::Placement>& places) {
  StagePlan plan;
  std::map<std::string, int> known;
  std::vector<StepOptions::Placement> wanted;
  int previous_ipu = -1;
  for (const auto& op : forward.ops()) {
    if (ops::stands_with_users(*op)) continue;
    const std::string& block = op->settings.block;
    auto [at, is_new] = known.try_emplace(block, static_cast<int>(plan.blocks.size()));
    if (is_new) {
      auto place = places.find(block);
      if (place == places.end() && !block.empty())
        throw Error(ErrorCode::kCapture, fmt::format("Unknown Block: '{}' at {} has no stage or IPU.", block,
                                                     ir::to_string(op->location)));
      plan.blocks.push_back(block);
      wanted.push_back(place == places.end() ? StepOptions::Placement{} : place->second);
    }
    const int ipu = wanted[at->second].ipu;
    if (previous_ipu >= 0 && ipu != previous_ipu) ++plan.counted_stages;
    previous_ipu = ipu;
  }
  // A graph that only returns constants, or nothing: the ops of the step itself still need a place.
  if (plan.blocks.empty()) {
    auto place = places.find("");
    plan.blocks.push_back("");
    wanted.push_back(place == places.end() ? StepOptions::Placement{} : place->second);
  }
  std::vector<int> order(plan.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return wanted[a].stage < wanted[b].stage; });
  plan.stages.resize(plan.blocks.size());
  int stage = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && wanted[order[i]].ipu != wanted[order[i - 1]].ipu) ++stage;
    plan.stages[order[i]] = stage;
  }
  for (const StepOptions::Placement& place : wanted) plan.ipus.push_back(place.ipu);
  plan.forward_stages = stage + 1;
  plan.phases.assign(plan.blocks.size(), 0);
  return plan;
}

void check_pipeline_fill(const StagePlan& plan, const StepOptions& options) {
  if (options.schedule != ir::Schedule::kPipelined || plan.forward_stages == 1) return;
  if (options.pipeline_fill_is_checked) return;
  const int64_t forward = std::max(plan.counted_stages, plan.forward_stages);
  if (!options.training) {
    if (options.device_iterations >= forward) return;
    throw worded(ErrorCode::kDeviceIterationsTooSmall, "unfilled_inference",
                 "device iterations too small: a run has {iterations}, and a pipeline of {stages} needs at "
                 "least {needed} to fill.",
                 {{"iterations", options.device_iterations},
                  {"stages", count_of(forward, "stage")},
                  {"needed", forward}});
  }
  const int64_t needed = 2 * forward - 1;
  if (options.accumulation >= needed) return;
  throw worded(
      ErrorCode::kGradientAccumulationTooSmall, "unfilled_training",
      "gradient accumulation too small: a weight update has {micro_batches} micro-batches, and this pipeline "
      "needs at least {needed}: the forward pass has {forward} and the backward pass adds {backward}.",
      {{"micro_batches", options.accumulation},
       {"needed", needed},
       {"forward", count_of(forward, "stage")},
       {"backward", count_of(forward - 1, "stage")}});
}

ir::Strategy strategy_of(const StagePlan& plan, const StepOptions& options) {
  ir::Strategy strategy;
  strategy.blocks = plan.blocks;
  strategy.block_stages = plan.stages;
  strategy.block_ipus = plan.ipus;
  strategy.forward_stages = plan.forward_stages;
  strategy.stochastic_rounding = options.stochastic_rounding;
  strategy.half_products = options.half_products;
  strategy.half_convolutions = options.half_convolutions;
  strategy.schedule = options.schedule;
  if (options.training) strategy.recomputation = options.recomputation;
  strategy.io_tiles = options.io_tiles;
  // More would never be in use.
  strategy.prefetch_depth =
      std::clamp<int64_t>(options.prefetch_depth, 1, options.device_iterations * options.accumulation);
  if (options.schedule == Schedule::kPhased) {
    strategy.block_phases = plan.phases;
    strategy.backward_phase_base = number_phases(options.phases).backward_base;
  }
  const TensorLocation& activations = options.activations;
  const bool stay_alive =
      options.schedule == Schedule::kPhased && options.phases.liveness == Liveness::kAlwaysLive;
  if (!activations.off_chip || stay_alive || !options.training) return strategy;
  strategy.offload_activations = activations.min_elements_off_chip;
  strategy.offload_after_each_phase = options.phases.liveness == Liveness::kOffChipAfterEachPhase;
  strategy.activations_load_io = activations.loads_io;
  strategy.activations_store_io = activations.stores_io;
  return strategy;
}

}  // namespace ipu::frontends
