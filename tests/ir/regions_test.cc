#include "ir/regions.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "tests/thrown.h"

namespace ipu::ir {
namespace {

const Op& last_op(const Module& module) { return *module.find_graph("f")->ops().back(); }

// A region with 5 operands: a bool and four others.
std::unique_ptr<Module> with(const std::string& op) {
  return parse(
      "graph @f(%c: bool[], %a: f32[], %b: f32[], %x: f32[2], %y: f32[2]) -> () { " + op +
      " return }"
      "graph @g(%a: f32[], %b: f32[], %x: f32[2], %y: f32[2]) -> (f32[2], f32[]) { return %y, %a }"
      "graph @h(%a: f32[], %b: f32[], %x: f32[2], %y: f32[2]) -> (f32[2], f32[]) { return %x, %b }"
      "graph @body(%i: i32[], %a: f32[], %b: f32[], %x: f32[2], %y: f32[2]) -> (f32[], f32[]) "
      "{ return %b, %a }"
      "graph @until(%i: i32[], %c: bool[], %a: f32[], %x: f32[2]) -> (bool[], bool[], f32[]) "
      "{ return %c, %c, %a }"
      "graph @s0(%i: i32[], %a: f32[], %x: f32[2]) -> (f32[], f32[2], i32[]) { return %a, %x, %i }"
      "graph @s1(%i: i32[], %a: f32[], %x: f32[2], %p: f32[2], %q: i32[]) -> (f32[], f32[]) "
      "{ return %a, %a }"
      "graph @s2(%i: i32[], %a: f32[], %x: f32[2], %p: f32[2], %q: i32[], %r: f32[]) -> f32[] { return %r }");
}

// The mapping of every operand, input, result and output up to `n`, as text; and back, where there is a way.
std::string mapping(const Region& region, int n) {
  std::string inputs, outputs;
  for (int i = 0; i < n; ++i) {
    inputs += std::to_string(region.input(i)) + " ";
    outputs += std::to_string(region.output(i)) + " ";
    if (i < region.op().operand_count() && region.input(i) >= 0) {
      EXPECT_EQ(region.operand(region.input(i)), i);
      EXPECT_EQ(region.is_carried_input(region.input(i)), region.is_carried(i));
    }
    if (i < region.op().result_count()) {
      EXPECT_EQ(region.result(region.output(i)), i);
    }
  }
  return inputs + "| " + outputs;
}

TEST(Region, of_a_call_hands_operands_on_as_they_stand) {
  auto module = with("%u, %v = call(%a, %b, %x, %y) {callee=@g} : f32[2], f32[]");
  for (const char* kind : {"call", "multi_exchange"}) {
    module = with(std::string("%u, %v = ") + kind + "(%a, %b, %x, %y) {callee=@g} : f32[2], f32[]");
    const Region region(last_op(*module));
    EXPECT_EQ(mapping(region, 4), "0 1 2 3 | 0 1 2 3 ");
    EXPECT_EQ(region.condition_operand(), -1);
    EXPECT_EQ(region.index_input(), -1);
    EXPECT_EQ(region.condition_output(), -1);
    EXPECT_EQ(region.carried(), 0);
    EXPECT_TRUE(region.is_invariant(0));
    EXPECT_FALSE(region.is_carried_input(0));
    EXPECT_EQ(region.operand(4), -1);
    EXPECT_EQ(region.result(2), -1);
    EXPECT_EQ(region.body().name(), "g");
    EXPECT_EQ(region.arguments().size(), 4u);
  }
}

TEST(Region, of_a_loop_has_an_index_and_carries) {
  auto module = with("%u, %v = loop(%a, %b, %x, %y) {body=@body, carried=2, trip=3} : f32[], f32[]");
  const Region region(last_op(*module));
  EXPECT_EQ(mapping(region, 4), "1 2 3 4 | 0 1 2 3 ");
  EXPECT_TRUE(region.repeats());
  EXPECT_EQ(region.index_input(), 0);
  EXPECT_EQ(region.operand(0), -1);
  EXPECT_EQ(region.operand(5), -1);
  EXPECT_EQ(region.carried(), 2);
  EXPECT_TRUE(region.is_carried(1));
  EXPECT_FALSE(region.is_carried(2));
  EXPECT_FALSE(region.is_carried(-1));
  EXPECT_FALSE(region.is_carried_input(0));
  EXPECT_TRUE(region.is_carried_input(2));
  EXPECT_FALSE(region.is_carried_input(3));
  EXPECT_FALSE(region.is_invariant(1));
  EXPECT_TRUE(region.is_invariant(3));
  EXPECT_EQ(region.condition_output(), -1);
  std::vector<Value*> arguments = region.arguments(nullptr);
  ASSERT_EQ(arguments.size(), 5u);
  EXPECT_EQ(arguments[0], nullptr);
  EXPECT_EQ(arguments[4]->name(), "y");
}

TEST(Region, of_a_loop_with_a_condition_returns_it_first) {
  auto module = with("%u, %v = loop(%c, %a, %x) {body=@until, carried=2, trip=3, while} : bool[], f32[]");
  const Region region(last_op(*module));
  EXPECT_EQ(mapping(region, 3), "1 2 3 | 1 2 3 ");
  EXPECT_EQ(region.condition_output(), 0);
  EXPECT_EQ(region.result(0), -1);
  EXPECT_EQ(region.result(2), 1);
  EXPECT_EQ(region.result(3), -1);
}

TEST(Region, of_an_if_keeps_the_condition_to_itself) {
  auto module = with("%u, %v = if(%c, %a, %b, %x, %y) {else=@h, then=@g} : f32[2], f32[]");
  const Region region(last_op(*module));
  EXPECT_EQ(mapping(region, 5), "-1 0 1 2 3 | 0 1 2 3 4 ");
  EXPECT_EQ(region.condition_operand(), 0);
  EXPECT_FALSE(region.is_invariant(0));
  EXPECT_TRUE(region.is_invariant(1));
  EXPECT_EQ(region.operand(0), 1);
  EXPECT_EQ(region.operand(4), -1);
  ASSERT_EQ(region.bodies().size(), 2u);
  EXPECT_EQ(region.bodies()[1]->name(), "h");
  EXPECT_EQ(region.arguments().size(), 4u);
}

TEST(Region, of_a_pipeline_has_flows_behind_the_shared_inputs) {
  auto module = with("%u = pipeline(%a, %x) {carried=1, micro_batches=2, stages=[@s0,@s1,@s2]} : f32[]");
  EXPECT_EQ(describe(find_violations(*module, Form::kFunctional)), "invalid IR: 0 violations.");
  const Region region(last_op(*module));
  EXPECT_EQ(mapping(region, 2), "1 2 | 0 1 ");
  EXPECT_EQ(region.bodies().size(), 3u);
  EXPECT_EQ(region.index_input(), 0);
  EXPECT_EQ(region.first_flow_input(), 3);
  EXPECT_EQ(region.first_flow_output(), 1);
  EXPECT_EQ(region.operand(3), -1);  // a flow
  EXPECT_EQ(region.result(1), -1);
}

TEST(Region, refuses_an_op_that_runs_no_graphs) {
  auto module = with("code_load() {graph=@g}");
  EXPECT_FALSE(is_region(last_op(*module)));
  EXPECT_NE(message_of([&] { Region region(last_op(*module)); }).find("'code_load' runs no graphs"),
            std::string::npos);
}

TEST(Region, bodies_can_be_exchanged) {
  auto module = with("%u, %v = if(%c, %a, %b, %x, %y) {else=@h, then=@g} : f32[2], f32[]");
  Op& branches = *module->find_graph("f")->ops().back();
  set_body(branches, 1, *module->find_graph("g"));
  EXPECT_EQ(Region(branches).bodies()[1]->name(), "g");
  module = with("%u = pipeline(%a, %x) {carried=1, micro_batches=2, stages=[@s0,@s1,@s2]} : f32[]");
  Op& pipeline = *module->find_graph("f")->ops().back();
  set_body(pipeline, 2, *module->find_graph("s1"));
  EXPECT_EQ(Region(pipeline).bodies()[2]->name(), "s1");
}

// --- outputs appended after a call

const char* kCalled =
    "graph @f(%x: f32[2]) -> f32[2] { %a = call(%x) {callee=@g} : f32[2] %b = call(%a) {callee=@g} : f32[2] "
    "return %b } graph @g(%x: f32[2]) -> f32[2] { %n = neg(%x) : f32[2] %m = abs(%n) : f32[2] return %m }";

TEST(AppendedOutputs, are_legal_in_the_authored_form_and_completed_for_the_functional_one) {
  auto module = parse(kCalled);
  Graph* callee = module->find_graph("g");
  callee->append_output(callee->find_value("n"));
  callee->append_output(callee->inputs()[0]);
  EXPECT_TRUE(find_violations(*module, Form::kAuthored).empty());
  EXPECT_EQ(print(*parse(print(*module))), print(*module));
  const std::vector<Violation> found = find_violations(*module, Form::kFunctional);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].what, "has 1 results, and @g returns 3");

  EXPECT_TRUE(complete_calls(*module));
  EXPECT_TRUE(find_violations(*module, Form::kFunctional).empty());
  const Op& site = *module->find_graph("f")->ops().front();
  ASSERT_EQ(site.result_count(), 3);
  EXPECT_EQ(site.result(1)->name(), "n");
  EXPECT_FALSE(complete_calls(*module));
}

TEST(AppendedOutputs, reach_one_site_when_it_asks) {
  auto module = parse(kCalled);
  Graph* callee = module->find_graph("g");
  const int at = callee->append_output(callee->find_value("n"));
  Op& site = *module->find_graph("f")->ops().front();
  Value* result = result_for_output(site, *callee, at);
  EXPECT_EQ(result, site.result(1));
  EXPECT_EQ(result_for_output(site, *callee, at), result);
  EXPECT_EQ(module->find_graph("f")->ops().back()->result_count(), 1);
}

TEST(AppendedOutputs, a_site_never_has_more_results_than_outputs) {
  auto module = parse(kCalled);
  module->find_graph("f")->ops().front()->append_result({DType::kF32, {2}}, "more");
  const std::vector<Violation> found = find_violations(*module, Form::kAuthored);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, "has 2 results, and @g returns 1");
}

}  // namespace
}  // namespace ipu::ir
