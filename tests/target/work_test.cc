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

}  // namespace
}  // namespace ipu::target
