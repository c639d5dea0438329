#include "ir/structure.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace ipu::ir {
namespace {

std::unique_ptr<Module> chain(int length, const std::string& last_op) {
  std::string text = "stream @out: f32[] {direction=\"device_to_host\"}\n";
  for (int i = 0; i < length; ++i) {
    std::string callee = "{callee=@g" + std::to_string(i + 1) + "}";
    text +=
        "graph @g" + std::to_string(i) + "() -> () { call() " + callee + " call() " + callee + " return }\n";
  }
  return parse(text + "graph @g" + std::to_string(length) +
               "() -> () { %c = constant() {value=dense<f32[]: 1.0>} : f32[] " + last_op + " return }");
}

TEST(Structure, effects_of_called_graphs_are_effects_of_the_call) {
  // 2^1000 paths lead to the last graph: each graph is looked at once.
  EXPECT_FALSE(has_side_effects(*chain(1000, "")->find_graph("g0")->ops().front()));
  EXPECT_TRUE(
      has_side_effects(*chain(1000, "host_store(%c) {stream=@out}")->find_graph("g0")->ops().front()));
}

TEST(Structure, called_graphs_come_in_order) {
  std::unique_ptr<Module> module = parse(
      "graph @f(%c: bool[]) -> () { if(%c) {else=@a, then=@b} pipeline() {carried=0, micro_batches=1, "
      "stages=[@d,@a]} neg(%c) return }"
      "graph @a() -> () { return } graph @b() -> () { return } graph @d() -> () { return }");
  auto op = module->find_graph("f")->ops().begin();
  auto names = [](const Op& of) {
    std::string text;
    for (Graph* graph : called_graphs(of)) text += graph->name();
    return text;
  };
  EXPECT_EQ(names(**op++), "ba");
  EXPECT_EQ(names(**op++), "da");
  EXPECT_EQ(names(**op), "");
}

}  // namespace
}  // namespace ipu::ir
