#include "ir/structure.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace ipu::ir {
namespace {

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
