#include "target/passes/passes.h"

#include <gtest/gtest.h>

#include "target/passes/vertex_loops.h"
#include "target/work/work.h"

namespace ipu::target {
namespace {

const Machine& gc200() { return *find_machine("gc200"); }
constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackward};

TEST(Passes, over_more_elements_never_take_less) {
  double before[7] = {};
  for (int64_t elements : {1, 1000, 100000, 10000000, 1000000000}) {
    const double now[] = {pass_cycles(gc200(), elements, 2, 1, 2),
                          reduce_pass_cycles(gc200(), elements, 1, 4),
                          norm_cycles(gc200(), elements, 1, 2, Direction::kForward),
                          softmax_cycles(gc200(), elements, 1, 2, Direction::kForward),
                          rearrange_cycles(gc200(), elements, 8),
                          gather_cycles(gc200(), elements, 64, 0, 1, Direction::kForward),
                          random_cycles(gc200(), elements)};
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_GE(now[i], before[i]) << i;
      before[i] = now[i];
    }
  }
}

// 1,472 tiles with 1,000 fp16 elements each: 167 a worker, 42 vectors, an add of two operands takes two cycles for each.
TEST(Passes, of_an_add_is_the_published_loop_and_half_a_phase) {
  EXPECT_EQ(pass_cycles(gc200(), 1472000, 2, 1, 2), 11 + 6 * (26 + 42 * 2) + 125);
  EXPECT_EQ(pass_cycles(gc200(), 1472000, 4, 1, 2), 11 + 6 * (26 + 84 * 2) + 125);
  // 84 vectors of fp32, then one vector of the partial sums of each result.
  EXPECT_EQ(reduce_pass_cycles(gc200(), 1472000, 1, 4), 33 + 6 * (20 + 2 * 84) + 33 + 6 * (20 + 1) + 500);
}

TEST(Passes, of_norms_and_softmax_are_sums_of_passes) {
  for (Direction direction : kDirections) {
    const double reduce = reduce_pass_cycles(gc200(), 1 << 20, 1024, 2),
                 pass = pass_cycles(gc200(), 1 << 20, 2, 2, 2);
    const bool is_forward = direction == Direction::kForward;
    EXPECT_EQ(norm_cycles(gc200(), 1 << 20, 1024, 2, direction),
              (is_forward ? 1.5 : 3) * reduce + (is_forward ? 3 : 4) * pass);
    EXPECT_GT(softmax_cycles(gc200(), 1 << 20, 1024, 2, direction),
              3 * pass_cycles(gc200(), 1 << 20, 2, 1, 1));
  }
  EXPECT_EQ(gather_cycles(gc200(), 100, 64, 0, 1, Direction::kBackward),
            2 * gather_cycles(gc200(), 100, 64, 0, 1, Direction::kForward));
}

// docs/device-model.md, on the machine for teaching.
TEST(Passes, of_the_worked_examples_cost_what_the_page_says) {
  const Machine& toy = *find_machine("toy");
  EXPECT_EQ(reduce_pass_cycles(toy, 192, 16, 4), 824);
  EXPECT_EQ(norm_cycles(toy, 192, 16, 4, Direction::kForward), 2166);
  EXPECT_EQ(norm_cycles(toy, 192, 16, 4, Direction::kBackward), 3712);
  EXPECT_EQ(softmax_cycles(toy, 192, 16, 4, Direction::kForward), 2572);
  EXPECT_EQ(softmax_cycles(toy, 192, 16, 4, Direction::kBackward), 1736);
  EXPECT_EQ(rearrange_cycles(toy, 1600, 8), 1106);
  EXPECT_EQ(gather_cycles(toy, 32, 16, 0, 1, Direction::kForward), 1000);
  EXPECT_EQ(gather_cycles(toy, 32, 16, 1024, 1, Direction::kForward), 872);
  const GatherWork update{.rows = 32, .row_bytes = 16, .is_update = true, .blocks = 3};
  EXPECT_EQ(price(toy, {update}, {}).cycles(), 7000);
  const StencilCycles step = stencil_cycles(toy, {.rows = 64, .columns = 64});
  EXPECT_EQ(step.tiles, 16);
  EXPECT_EQ(step.total(), 12051);
}

TEST(VertexLoops, take_an_instruction_a_cycle_and_more_for_each_iteration) {
  EXPECT_EQ(vertex_loop_cycles(gc200(), 9, 1000, 1), 6 * 1000 * (9 + gc200()["loop_instructions"]));
  EXPECT_LT(vertex_loop_cycles(gc200(), 9, 1000, 2), vertex_loop_cycles(gc200(), 9, 1000, 1));
  EXPECT_LT(memory_bytes_per_second(gc200(), 24, 4, 2), load_bytes_per_second(gc200(), 128));
  EXPECT_EQ(local_copy_cycles(gc200(), 8192), gc200()["copy_start_cycles"] + 1024);
}

TEST(VertexLoops, stencil_is_cut_into_parts_that_are_nearly_squares) {
  Stencil stencil{.rows = 1122, .columns = 2200};
  const StencilCycles all = stencil_cycles(gc200(), stencil);
  EXPECT_LE(all.tiles, gc200().whole("tiles"));
  EXPECT_NEAR(static_cast<double>(all.part_rows), static_cast<double>(all.part_columns), 8);
  EXPECT_EQ(all.total(), all.compute + all.pack + all.unpack + all.exchange + all.links + all.control);
  stencil.least_rows = 72;
  stencil.least_columns = 64;
  const StencilCycles large = stencil_cycles(gc200(), stencil);
  EXPECT_GE(large.part_rows, 72);
  EXPECT_GE(large.part_columns, 64);
  EXPECT_GT(large.compute, all.compute);
  stencil = {.rows = 1122, .columns = 2200, .ipus = 4};
  const StencilCycles several = stencil_cycles(gc200(), stencil);
  EXPECT_LT(several.compute, all.compute);
  EXPECT_EQ(several.links, gc200()["several_ipus_step_cycles"]);
  stencil = {.rows = 3, .columns = 5, .least_rows = 8, .least_columns = 8};
  const StencilCycles one = stencil_cycles(gc200(), stencil);
  EXPECT_EQ(one.tiles, 1);
  EXPECT_EQ(one.pack + one.unpack + one.exchange, 0);
}

}  // namespace
}  // namespace ipu::target
