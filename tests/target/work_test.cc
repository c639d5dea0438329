#include "target/work/work.h"

#include <gtest/gtest.h>

#include "target/passes/passes.h"

namespace ipu::target {
namespace {

const Machine& gc200() { return *find_machine("gc200"); }
WorkPrice once(WorkForm form) { return price(gc200(), {std::move(form)}, {}); }

TEST(Work, of_a_pass_costs_the_sum_of_its_functions) {
  const WorkPrice both = once(PassWork{.elements = 1 << 20, .element_bytes = 2, .functions = {"Exp", "Add"}});
  EXPECT_EQ(both.cycles(), pass_cycles(gc200(), 1 << 20, 2, 4 + 1, 1));
}

// poplibs' table: of two fp32 and four fp16, of one integer.
TEST(Work, of_functions_is_what_is_published) {
  EXPECT_EQ(function_cycles("Exp", 4), 6);
  EXPECT_EQ(function_cycles("Exp", 2), 4);
  EXPECT_EQ(function_cycles("Gelu", 2), 5);
  EXPECT_EQ(function_cycles("Cos", 4), 2 * 2304);
  EXPECT_EQ(function_cycles("Add", 4, ElementType::kInteger), 2 * 8);
  EXPECT_EQ(function_cycles("Div", 4, ElementType::kInteger), 2 * 277);
  EXPECT_EQ(function_cycles("Log2", 2), function_cycles("Log", 2) + function_cycles("Mul", 2));
  EXPECT_EQ(function_cycles("", 4), 1);
  EXPECT_EQ(known_as("Erfc"), KnownAs::kSumOfRows);
  EXPECT_EQ(known_as("zeta"), KnownAs::kNothing);
  EXPECT_GE(function_cycles("zeta", 4), function_cycles("Cos", 4));
}

TEST(Work, of_a_sort_is_that_of_its_steps_and_of_fewer_kept_elements_less) {
  // Two elements on one tile: one step of one pair.
  EXPECT_EQ(once(SortWork{.columns = 2, .kept = 2}).cycles(), 19 + 6 * (40 + 17 + 13) + 4 / 4 + 250);
  EXPECT_EQ(once(SortWork{.columns = 1, .kept = 1}).cycles(), 0);
  const double all = once(SortWork{.columns = 4096, .kept = 4096}).cycles();
  EXPECT_LT(once(SortWork{.columns = 4096, .kept = 64}).cycles(), all);
  EXPECT_GT(once(SortWork{.columns = 4096, .kept = 4096, .has_values = true}).exchange,
            once(SortWork{.columns = 4096, .kept = 4096}).exchange);
}

// Where the table is small, copies of it save looking for each number on each tile.
TEST(Work, of_a_gather_copies_a_small_table) {
  const GatherWork one{.rows = 100000, .row_bytes = 4, .table_bytes = 4000000000},
      copied{.rows = 100000, .row_bytes = 4, .table_bytes = 4000};
  EXPECT_LT(once(copied).cycles(), once(one).cycles() / 10);
  EXPECT_EQ(once(one).cycles(), gather_cycles(gc200(), 100000, 4, 0, 1, Direction::kForward));
}

TEST(Work, of_random_numbers_is_a_start_and_vectors) {
  const int64_t elements = 1472 * 100;
  EXPECT_EQ(once(RandomWork{.elements = elements, .distribution = Distribution::kDropout}).cycles(),
            150 + 2 * 50 + 125);
  EXPECT_EQ(once(RandomWork{.elements = elements, .element_bytes = 2, .distribution = Distribution::kNormal})
                .cycles(),
            148 + 4 * 25 + 125);
}

TEST(Work, that_is_rearranged_in_odd_runs_moves_by_two_bytes) {
  const auto cycles = [](int64_t contiguous) {
    return once(RearrangementWork{.bytes = 1 << 20, .contiguous_bytes = contiguous}).cycles();
  };
  EXPECT_EQ(cycles(64), cycles(8));
  EXPECT_GT(cycles(2 * 197), cycles(8));
  EXPECT_EQ(cycles(2 * 197), cycles(2));
}

TEST(Work, of_a_product_is_that_of_its_plan) {
  const ProductWork product{.shape = {.rows = 512, .inputs = 1024, .outputs = 1024}};
  EXPECT_EQ(once(product).cycles(), plan_product(gc200(), product.shape, product.options).cycles.total());
}

TEST(Work, that_is_done_twice_costs_twice_and_needs_the_same_memory) {
  const Work work{RearrangementWork{.bytes = 1 << 20}, 2};
  const WorkPrice single = price(gc200(), {work.form}, {}), twice = price(gc200(), work, {});
  EXPECT_EQ(twice.cycles(), 2 * single.cycles());
  EXPECT_EQ(twice.temporary_bytes, single.temporary_bytes);
}

TEST(Work, of_a_collective_is_nothing_in_one_replica) {
  EXPECT_EQ(once(CollectiveWork{.bytes = 1e6}).seconds, 0);
  EXPECT_GT(price(gc200(), {CollectiveWork{.bytes = 1e6}}, {.replicas = 2}).seconds, 0);
}

// 1,000 numbers in each of 1,000 groups: a tile compares those of its group alone.
TEST(Work, of_a_gather_in_groups_is_that_of_a_group_on_each_tile) {
  GatherWork work{.rows = 1000000, .row_bytes = 2, .groups = 1};
  const double together = once(work).cycles();
  work.groups = 1000;
  EXPECT_NEAR((together - once(work).cycles()) / (8 * 999000), 1, 1e-9);
}

TEST(Work, of_an_update_of_more_blocks_takes_longer) {
  GatherWork work{.rows = 1, .row_bytes = 64, .is_update = true};
  const double one = once(work).cycles();
  work.blocks = 3;
  EXPECT_EQ(once(work).cycles(), one + 2 * gc200()["block_update_cycles"]);
}

}  // namespace
}  // namespace ipu::target
