#include "ops/definition/effects.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ir/text/text.h"
#include "tests/ops/sample_graph.h"

namespace ipu::ops {
namespace {

std::unique_ptr<ir::Module> chain(int length, const std::string& last_op) {
  std::string text = "stream @out: f32[] {direction=\"device_to_host\"}\n";
  for (int i = 0; i < length; ++i) {
    std::string callee = "{callee=@g" + std::to_string(i + 1) + "}";
    text +=
        "graph @g" + std::to_string(i) + "() -> () { call() " + callee + " call() " + callee + " return }\n";
  }
  return ir::parse(text + "graph @g" + std::to_string(length) +
                   "() -> () { %c = constant() {value=dense<f32[]: 1.0>} : f32[] " + last_op + " return }");
}

TEST(Effects, effects_of_called_graphs_are_effects_of_the_call) {
  // 2^1000 paths lead to the last graph: each graph is looked at once.
  EXPECT_FALSE(has_side_effects(*chain(1000, "")->find_graph("g0")->ops().front()));
  EXPECT_TRUE(
      has_side_effects(*chain(1000, "host_store(%c) {stream=@out}")->find_graph("g0")->ops().front()));
}

// The op of `line`, in a graph with inputs %a and %b of f32[4].
struct One {
  explicit One(const std::string& line)
      : module(ir::parse("graph @g(%a: f32[4], %b: f32[4]) -> () { " + line + " return }")),
        op(*module->find_graph("g")->ops().back()) {}
  std::unique_ptr<ir::Module> module;
  const ir::Op& op;
};

TEST(Effects, of_an_op_that_computes_there_are_none) {
  const One add("%y = add(%a, %b) : f32[4]");
  const ir::Effects effects = ops::effects(add.op);
  EXPECT_EQ(effects.state, ir::StateEffect::kNone);
  EXPECT_TRUE(effects.writes.empty() && effects.aliases.empty() && effects.unread.empty());
  EXPECT_TRUE(is_function(add.op));
}

TEST(Effects, in_place_an_op_writes_to_its_operand_and_lives_there) {
  const One add("%y = add(%a, %b) {in_place=1} : f32[4]");
  const ir::Effects effects = ops::effects(add.op);
  ASSERT_EQ(effects.writes.size(), 1U);
  EXPECT_EQ(effects.writes[0].operand, 1);
  ASSERT_EQ(effects.aliases.size(), 1U);
  EXPECT_EQ(effects.aliases[0].operand, 1);
  EXPECT_EQ(effects.aliases[0].view, nullptr);
  EXPECT_TRUE(has_side_effects(add.op));
  EXPECT_FALSE(is_function(add.op));
}

TEST(Effects, in_place_a_view_neither_reads_nor_writes) {
  const One slice("%y = slice(%a) {in_place=0, sizes=[2], starts=[1], steps=[1]} : f32[2]");
  const ir::Effects effects = ops::effects(slice.op);
  EXPECT_TRUE(effects.writes.empty());
  ASSERT_EQ(effects.aliases.size(), 1U);
  EXPECT_EQ(effects.aliases[0].view, view_rule(slice.op));
  EXPECT_EQ(effects.unread, std::vector<int>{0});
}

TEST(Effects, of_concat_in_place_all_operands_share_the_memory) {
  const One concat("%y = concat(%a, %b) {dim=0, in_place=0} : f32[8]");
  EXPECT_EQ(ops::effects(concat.op).aliases.size(), 2U);
}

TEST(Effects, a_write_says_its_region) {
  const One whole("write(%a, %b)");
  ASSERT_EQ(ops::effects(whole.op).writes.size(), 1U);
  EXPECT_FALSE(ops::effects(whole.op).writes[0].box.has_value());
  const One part(
      "%c = slice(%b) {sizes=[2], starts=[1], steps=[1]} : f32[2] write(%a, %c) {sizes=[2], starts=[0], steps=[2]}");
  EXPECT_EQ(ops::effects(part.op).writes[0].box->steps, std::vector<int64_t>{2});
}

TEST(Effects, of_an_op_without_a_definition_are_unknown) {
  const One opaque("\"user::op\"(%a)");
  EXPECT_EQ(state_effect(opaque.op), ir::StateEffect::kUnknown);
  EXPECT_TRUE(has_side_effects(opaque.op));
}

TEST(Effects, of_structural_ops_are_in_the_table_too) {
  EXPECT_EQ(state_effect(One("host_store(%a) {stream=@s}").op), ir::StateEffect::kChanges);
  EXPECT_EQ(state_effect(One("%r = rng.context() : u32[2]").op), ir::StateEffect::kReads);
  EXPECT_EQ(state_effect(One("%r = replica_index() : i32[]").op), ir::StateEffect::kNone);
}

// Strides say the same as the reference: of a plain operand element by element.
TEST(Effects, strides_of_view_rules_are_where_the_reference_reads) {
  int rules = 0;
  for (const OpDef* def : all_ops()) {
    if (!def->view) continue;
    EXPECT_FALSE(def->samples.empty()) << def->name;
    for (size_t n = 0; n < def->samples.size() && def->view->strides; ++n) {
      SampleGraph sample = build_sample(*def, def->samples[n]);
      const Shape& shape = sample.op->operand(0)->type().shape;
      const auto view = def->view->strides(*sample.op, {0, shape, contiguous_strides(shape)});
      ASSERT_TRUE(view.has_value()) << name_of(*def, n);
      EXPECT_EQ(view->shape, sample.op->result()->type().shape) << name_of(*def, n);
      ReferenceTensor numbers = ReferenceTensor::zeros(sample.op->operand(0)->type());
      std::iota(numbers.values.begin(), numbers.values.end(), 0.0);
      const ReferenceTensor wanted = interpret_op(*sample.op, {&numbers}, Arithmetic::kF64)[0];
      const Strides own = contiguous_strides(view->shape);
      for (int64_t i = 0; i < wanted.size(); ++i) {
        int64_t at = view->offset;
        for (size_t d = 0; d < own.size(); ++d) at += i / own[d] % view->shape[d] * view->strides[d];
        EXPECT_EQ(static_cast<double>(at), wanted.values[static_cast<size_t>(i)]) << name_of(*def, n);
      }
      ++rules;
    }
  }
  EXPECT_GE(rules, 12);
}

}  // namespace
}  // namespace ipu::ops
