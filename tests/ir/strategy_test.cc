// The strategy of a module: what a front end writes is what passes read.
#include "ir/strategy.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "tests/thrown.h"

namespace ipu::ir {
namespace {

void expect_round_trip(const Strategy& strategy) {
  Module module;
  set_strategy(strategy, module);
  EXPECT_EQ(strategy_of(module), strategy);
  EXPECT_EQ(strategy_of(*parse(print(module))), strategy) << print(module);
}

TEST(Strategy, is_read_as_it_was_written_also_from_text) {
  Strategy strategy;
  strategy.blocks = {"", "b", "c"};
  strategy.block_stages = {0, 1, 1};
  strategy.block_ipus = {0, 1, 1};
  strategy.forward_stages = 2;
  strategy.schedule = Schedule::kPipelined;
  for (int64_t number = 0; number < 5; ++number) {
    strategy.recomputation = recomputation_mode(number);
    expect_round_trip(strategy);
  }
}

TEST(Strategy, of_phases_is_read_as_it_was_written_also_from_text) {
  Strategy strategy;
  strategy.blocks = {"a", "b"};
  strategy.block_stages = {0, 0};
  strategy.block_ipus = {0, 1};
  strategy.block_phases = {0, 4};
  strategy.backward_phase_base = 12;
  strategy.schedule = Schedule::kPhased;
  strategy.offload_activations = 0;
  strategy.offload_after_each_phase = strategy.activations_load_io = strategy.activations_store_io = true;
  expect_round_trip(strategy);
}

TEST(Strategy, of_defaults_leaves_no_attributes) {
  Module module;
  EXPECT_EQ(strategy_of(module), Strategy{});
  module.attributes.set("forward_stages", int64_t{3});
  set_strategy({}, module);
  EXPECT_TRUE(module.attributes.empty());
}

TEST(Strategy, names_what_is_wrong_with_an_attribute) {
  auto refusal = [](const char* attributes) {
    return message_of([&] { strategy_of(*parse(std::string("module {") + attributes + "}")); });
  };
  EXPECT_EQ(
      refusal("schedule=\"fast\""),
      "invalid IR [IPU-E202]: attribute 'schedule' of the module is none of sharded, pipelined, phased.");
  EXPECT_EQ(refusal("recomputation=3"),
            "invalid IR [IPU-E202]: attribute 'recomputation' of the module is none of none, standard, "
            "norm_only, pipeline, all.");
  EXPECT_EQ(refusal("forward_stages=\"2\""),
            "invalid IR [IPU-E202]: attribute 'forward_stages' of the module is of another kind.");
  EXPECT_EQ(refusal("blocks=[\"a\",\"b\"], block_stages=[0,1], block_ipus=[0]"),
            "invalid IR [IPU-E202]: attribute 'blocks' of the module has 2 entries, block_stages 2 and "
            "block_ipus 1.");
  EXPECT_EQ(refusal("blocks=[\"a\"], block_stages=[0], block_ipus=[0], block_phases=[0,1]"),
            "invalid IR [IPU-E202]: attribute 'blocks' of the module has 1 entries and block_phases 2.");
}

TEST(Strategy, refuses_unknown_modes_and_schedules_of_a_front_end) {
  EXPECT_EQ(
      message_of([] { recomputation_mode(5); }),
      "autoRecomputation is 5 [IPU-E414]: it must be 0 to 4 (none, standard, norm_only, pipeline, all).");
  EXPECT_EQ(message_of([] { recomputation_mode(-1); }).substr(0, 36), "autoRecomputation is -1 [IPU-E414]: ");
  EXPECT_EQ(message_of([] { schedule_from_string("serial"); }),
            "unknown schedule [IPU-E414]: 'serial'; sharded, pipelined, phased.");
}

}  // namespace
}  // namespace ipu::ir
