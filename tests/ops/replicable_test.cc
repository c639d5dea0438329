// One answer to "may it be computed wherever it is needed": every room that asks gives the same.
#include "ops/replicable.h"

#include <gtest/gtest.h>

#include "frontends/common/stages.h"
#include "ir/regions.h"
#include "ir/text/text.h"
#include "lowering/nest.h"
#include "passes/pass.h"
#include "tests/ops/sample_graph.h"

namespace ipu::ops {
namespace {

void run_pass(ir::Module& module, const char* name) {
  passes::PassContext context;
  passes::find_pass(name)->make()->run(module, context);
}

// The values of every graph of the nest that are replicable by the sweep, and those lowering computes anywhere.
void expect_lowering_agrees(const ir::Module& module, const ir::Graph& entry, const std::string& what) {
  const lowering::Nest nest(module, entry);
  for (const auto& scope : nest.scopes()) {
    const bool repeats = scope->site != nullptr && ir::Region(*scope->site).repeats();
    const auto replicable = find_replicable(*scope->graph, repeats ? scope->graph->inputs()[0] : nullptr);
    for (const auto& op : scope->graph->ops()) {
      if (ir::is_region(*op)) continue;
      bool knows_operands = true;  // here; lowering also knows what comes from the graphs around
      for (int i = 0; i < op->operand_count(); ++i)
        knows_operands =
            knows_operands && (op->operand(i) == nullptr || replicable.contains(op->operand(i)) ||
                               nest.home(*scope, op->operand(i)) != lowering::kAnywhere);
      for (int i = 0; i < op->result_count() && knows_operands; ++i)
        EXPECT_EQ(nest.home(*scope, op->result(i)) == lowering::kAnywhere, replicable.contains(op->result(i)))
            << what << ": " << ir::print(*op);
    }
  }
}

TEST(Replicable, lowering_agrees_on_every_sample_of_every_op) {
  int replicable = 0, others = 0;
  for (const OpDef* def : all_ops())
    for (const Sample& sample : def->samples) {
      SampleGraph s = build_sample(*def, sample);
      ir::Builder builder(s.graph, s.op);
      for (size_t i = 0; i < s.operands.size(); ++i) {
        if (s.operands[i] == nullptr) continue;
        const ir::Type& type = s.operands[i]->type();
        const std::vector<std::byte> zeros(static_cast<size_t>(type.bytes()) + 1);
        s.operands[i]->replace_all_uses_with(
            builder.constant(ir::make_constant(type.dtype, type.shape, zeros.data())));
      }
      while (!s.graph->inputs().empty()) s.graph->erase_input(0);
      s.op->settings.ipu = 1;
      if (s.op->result_count() == 0) continue;
      expect_lowering_agrees(*s.module, *s.graph, def->name);
      ++(find_replicable(*s.graph, nullptr).contains(s.op->result()) ? replicable : others);
    }
  EXPECT_GT(replicable, 5);
  EXPECT_GT(others, 100);
}

const char* kProgram = R"(
  stream @x: f32[4] {ipu=0}
  stream @y: f32[4] {direction="device_to_host", ipu=1}
  entry main = @main
  graph @main() -> () {
    %zero = constant() {value=dense<f32[]: 0.0> | ipu=0} : f32[]
    %zeros = expand(%zero) {shape=[4] | ipu=0} : f32[4]
    %sum = loop(%zeros) {body=@body, carried=1, trip=3} : f32[4]
    %at_home = add(%zeros, %sum) {| ipu=1} : f32[4]
    host_store(%at_home) {stream=@y | ipu=1}
    return
  }
  graph @body(%i: i32[], %sum: f32[4]) -> f32[4] {
    %two = constant() {value=dense<i32[]: 2> | ipu=0} : i32[]
    %twice = mul(%i, %two) {| ipu=0} : i32[]
    %scale = cast(%twice) {dtype=f32 | ipu=0} : f32[]
    %one_row = reshape(%scale) {shape=[1] | ipu=0} : f32[1]
    %table = constant() {value=dense<f32[4]: [1.0, 2.0, 3.0, 4.0]> | ipu=0} : f32[4]
    %doubled = add(%table, %table) {| ipu=0} : f32[4]
    %x = host_load() {stream=@x | ipu=0} : f32[4]
    %far = mul(%x, %scale) {| ipu=1} : f32[4]
    %farther = mul(%far, %one_row) {| ipu=1} : f32[4]
    %next = add(%farther, %doubled) {| ipu=1} : f32[4]
    %more = add(%next, %sum) {| ipu=1} : f32[4]
    return %more
  }
)";

TEST(Replicable, copies_between_ipus_and_lowering_agree) {
  auto module = ir::parse(kProgram);
  run_pass(*module, "insert-ipu-copies");
  int copies = 0;
  for (const auto& graph : module->graphs()) {
    const auto replicable = find_replicable(*graph, graph->inputs().empty() ? nullptr : graph->inputs()[0]);
    for (const auto& op : graph->ops()) {
      if (!op->is(ir::kind::kIpuCopy)) continue;
      ++copies;
      EXPECT_FALSE(replicable.contains(op->operand(0))) << ir::print(*op);
    }
  }
  EXPECT_GE(copies, 3);  // x, one_row, doubled; not scale, not zeros
  expect_lowering_agrees(*module, *module->find_graph("main"), "program");
}

TEST(Replicable, the_index_of_a_loop_counts_where_it_is_named) {
  auto module = ir::parse(kProgram);
  const ir::Graph& body = *module->find_graph("body");
  const ir::Value* scale = body.find_value("scale");
  EXPECT_TRUE(find_replicable(body, body.inputs()[0]).contains(scale));
  EXPECT_FALSE(find_replicable(body, nullptr).contains(scale));
  EXPECT_FALSE(find_replicable(body, body.inputs()[0]).contains(body.find_value("one_row")));
  EXPECT_FALSE(find_replicable(body, body.inputs()[0]).contains(body.find_value("doubled")));
}

// Stages are counted on the captured graph, and ops placed later: a block is known to both or to neither.
TEST(StandsWithUsers, a_block_that_reads_only_tensors_known_beforehand_is_a_stage) {
  auto module = ir::parse(R"(
    graph @forward(%x: f32[2]) -> f32[2] {
      %n = neg(%x) {| block="a"} : f32[2]
      %table = constant() {value=dense<f32[2]: [1.0, 2.0]> | block="b"} : f32[2]
      %sum = add(%table, %table) {| block="b"} : f32[2]
      %one = constant() {value=dense<f32[]: 1.0> | block="c"} : f32[]
      %ones = expand(%one) {shape=[2] | block="c"} : f32[2]
      %m = add(%n, %sum) {| block="d"} : f32[2]
      %y = add(%m, %ones) {| block="d"} : f32[2]
      return %y
    })");
  const ir::Graph& forward = *module->find_graph("forward");
  frontends::StepOptions options;
  options.places = {{"a", {0, 0}}, {"b", {1, 1}}, {"c", {2, 2}}, {"d", {3, 3}}};
  const frontends::StagePlan plan = frontends::plan_stages(forward, options.places);
  EXPECT_EQ(plan.blocks, (std::vector<std::string>{"a", "b", "d"}));
  ir::set_strategy(frontends::strategy_of(plan, options), *module);
  run_pass(*module, "place");
  auto ipu = [&](const char* name) { return forward.find_value(name)->producer()->settings.ipu; };
  EXPECT_EQ(ipu("sum"), 1);
  EXPECT_EQ(ipu("table"), 1);
  EXPECT_EQ(ipu("ones"), 3);  // block c has nothing of its own: what it fills stands with its reader
  for (const auto& op : forward.ops())
    if (!stands_with_users(*op)) {
      EXPECT_NE(std::find(plan.blocks.begin(), plan.blocks.end(), op->settings.block), plan.blocks.end());
    }
}

TEST(StandsWithUsers, what_has_a_place_of_its_own_does_not) {
  auto module = ir::parse(R"(
    variable @w: f32[]
    stream @x: f32[]
    graph @f() -> () {
      %w = variable.read() {variable=@w} : f32[]
      %x = host_load() {stream=@x} : f32[]
      %c = constant() {value=dense<f32[]: 1.0>} : f32[]
      %k = call(%c) {callee=@g} : f32[]
      print_tensor(%c)
      %s = sqrt(%c) : f32[]
      %t = sqrt(%s) : f32[]
      return
    }
    graph @g(%v: f32[]) -> f32[] { return %v })");
  std::string stands;
  for (const auto& op : module->find_graph("f")->ops()) stands += stands_with_users(*op) ? "1" : "0";
  EXPECT_EQ(stands, "0110010");
}

}  // namespace
}  // namespace ipu::ops
