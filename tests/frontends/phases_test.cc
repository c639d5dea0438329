// Numbers of execution phases by Liveness and strategy, and blocks that fit no phase.
#include <gtest/gtest.h>

#include "frontends/common/residence.h"
#include "frontends/common/stages.h"
#include "support/error.h"

namespace ipu::frontends {
namespace {

struct Row {
  PhaseOptions options;
  int64_t phases;
  std::vector<int64_t> forward, backward;
};

TEST(Phases, HaveTheDocumentedNumbers) {
  const std::vector<Row> table = {
      {{false, false, Liveness::kAlwaysLive, 3}, 3, {0, 1, 2}, {4, 3, 2}},
      {{false, true, Liveness::kAlwaysLive, 3}, 4, {0, 1, 2}, {6, 5, 4}},
      {{false, false, Liveness::kOffChipAfterFwd, 3}, 6, {0, 1, 2}, {8, 7, 6}},
      {{true, true, Liveness::kOffChipAfterFwd, 3}, 6, {0, 1, 2}, {8, 7, 6}},
      {{false, false, Liveness::kOffChipAfterFwdNoOverlap, 3}, 8, {0, 2, 4}, {12, 10, 8}},
      {{false, true, Liveness::kOffChipAfterEachPhase, 3}, 12, {0, 4, 8}, {20, 16, 12}},
      {{false, false, Liveness::kAlwaysLive, 1}, 1, {0}, {0}},
  };
  for (const Row& row : table) {
    const PhaseNumbers numbers = number_phases(row.options);
    EXPECT_EQ(numbers.phases, row.phases);
    for (size_t i = 0; i < row.forward.size(); ++i) {
      EXPECT_EQ(numbers.stride * static_cast<int64_t>(i), row.forward[i]);
      EXPECT_EQ(numbers.backward_base - row.forward[i], row.backward[i]);
    }
  }
}

StagePlan plan_of(const std::map<std::string, StepOptions::Placement>& places) {
  StagePlan plan;
  for (const auto& [block, place] : places) {
    plan.blocks.push_back(block);
    plan.stages.push_back(place.stage);
    plan.ipus.push_back(place.ipu);
    plan.phases.push_back(0);
  }
  return plan;
}

std::string refusal(const StepOptions& options) {
  StagePlan plan = plan_of(options.places);
  try {
    plan_phases(plan, options);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Phases, ABlockInNoPhaseIsRefused) {
  StepOptions options;
  options.phases.declared = 2;
  options.places = {{"a", {0, 0, 1}}, {"b", {0, 0, -1}}};
  EXPECT_EQ(refusal(options),
            "invalid phase [IPU-E414]: block 'b' is in no phase; the execution strategy has phases 0 to 1.\n"
            "  try:      name the block in one of the phases of the strategy");
  options.places = {{"", {0, 0, 2}}};
  EXPECT_EQ(
      refusal(options),
      "invalid phase [IPU-E414]: what comes before the first block is in no phase; the execution strategy "
      "has phases 0 to 1.\n  try:      name the block in one of the phases of the strategy");
  options.places = {{"a", {0, 5, 0}}, {"b", {0, 4, 1}}};
  EXPECT_EQ(refusal(options), "");  // serial: the parity is free
  options.phases.is_parallel = true;
  EXPECT_EQ(refusal(options).substr(0, 81),
            "invalid IPU for a phase [IPU-E414]: phase 0 is on IPU 5 (block 'a'). Of parallel ");
}

TEST(ShardGroup, StaysInsideAProcess) {
  auto group = [](const ReplicaGrouping& grouping, int replicas, int of_process) {
    const ShardGroup found = shard_group(grouping, replicas, of_process);
    return std::pair(found.members, found.stride);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(group({}, 4, 4), Pair(4, 1));
  EXPECT_EQ(group({}, 8, 4), Pair(4, 1));  // two processes: each holds the whole value
  EXPECT_EQ(group({1, 2, {}}, 4, 4), Pair(2, 1));
  EXPECT_EQ(group({2, 2, {}}, 4, 4), Pair(2, 2));
  EXPECT_EQ(group({2, 2, {}}, 4, 2), Pair(1, 1));  // groups that may reach into the other process
  EXPECT_EQ(group({1, 1, {}}, 4, 4), Pair(1, 1));
}

TEST(Residence, SmallStatesStayWholeAndOnTheChip) {
  const ir::Type type{DType::kF32, {3, 5}};
  int slots = 0;
  const Residence plain({}, type, {4, 1}, slots);
  EXPECT_TRUE(plain.is_plain());
  const Residence small(
      {.off_chip = true, .is_sharded = true, .min_elements_off_chip = 16, .min_elements_sharded = 16}, type,
      {4, 1}, slots);
  EXPECT_TRUE(small.is_plain());
  const Residence large(
      {.off_chip = true, .is_sharded = true, .min_elements_off_chip = 15, .min_elements_sharded = 15}, type,
      {4, 1}, slots);
  EXPECT_FALSE(large.is_in_slot());
  EXPECT_EQ(large.stored().shape, (Shape{4}));  // of 16 elements, one of them padding
  const Residence alone({.is_sharded = true, .min_elements_sharded = 0}, type, {1, 1}, slots);
  EXPECT_TRUE(alone.is_plain());
  EXPECT_EQ(slots, 3);
}

}  // namespace
}  // namespace ipu::frontends
