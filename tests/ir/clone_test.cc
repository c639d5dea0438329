// Clones of modules: every text of the tests, and random modules.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "ir/regions.h"
#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "support/error.h"
#include "tests/ir/random_module.h"
#include "tests/source_tree.h"
#include "tools/cases/text_case.h"

namespace ipu::ir {
namespace {

std::string violations(const Module& module) {
  return describe(find_violations(module, Form::kAuthored)) +
         describe(find_violations(module, Form::kFunctional));
}

// Uses and edges of both ends agree.
void expect_sound(const Module& module) {
  for (const auto& graph : module.graphs()) {
    EXPECT_EQ(graph->module(), &module);
    for (const auto& op : graph->ops()) {
      EXPECT_EQ(op->graph(), graph.get());
      for (int i = 0; i < op->operand_count(); ++i) {
        if (op->operand(i) == nullptr) continue;
        EXPECT_EQ(op->operand(i)->graph(), graph.get());
        auto uses = op->operand(i)->uses();
        EXPECT_EQ(std::count_if(uses.begin(), uses.end(),
                                [&](const Use& use) { return use.user == op.get() && use.index == i; }),
                  1);
      }
      for (int i = 0; i < op->result_count(); ++i) {
        EXPECT_EQ(op->result(i)->producer(), op.get());
        EXPECT_EQ(graph->find_value(op->result(i)->name()), op->result(i));
      }
      for (const Op* earlier : op->after) EXPECT_EQ(earlier->graph(), graph.get());
    }
    for (const Value* output : graph->outputs()) EXPECT_TRUE(output->is_output());
  }
}

// Changes everything a clone could share by mistake.
void disturb(Module& module) {
  for (const auto& graph : module.graphs()) {
    while (!graph->outputs().empty()) graph->erase_output(0);
    for (Op* op = graph->ops().empty() ? nullptr : graph->ops().back().get(); op != nullptr;) {
      Op* earlier = graph->previous(op);
      bool is_unused = true;
      for (int i = 0; i < op->result_count(); ++i) is_unused = is_unused && op->result(i)->is_unused();
      if (is_unused && op->id() % 2 == 0) {
        graph->erase(op);
      } else {
        op->attributes.set("disturbed", true);
        op->settings.ipu = 77;
        op->after.clear();
      }
      op = earlier;
    }
    graph->attributes.set("disturbed", true);
    graph->add_input({DType::kF32, {3}}, "disturbance");
  }
  for (Variable& variable : module.variables()) variable.role = "disturbed";
  for (const Stream& stream : module.streams()) module.find_stream(stream.name)->period = 99;
  for (const Ring& ring : module.rings()) module.find_ring(ring.name)->capacity = 99;
  module.entry_points.clear();
  module.attributes.set("disturbed", true);
}

void check_clone(const Module& module, const std::string& what) {
  const std::string text = print(module), wrong = violations(module);
  std::unique_ptr<Module> clone = module.clone();
  EXPECT_EQ(print(*clone), text) << what;
  EXPECT_EQ(violations(*clone), wrong) << what;
  expect_sound(*clone);
  std::unique_ptr<Module> second = clone->clone();
  disturb(*clone);
  expect_sound(*clone);
  EXPECT_EQ(print(module), text) << what;
  EXPECT_EQ(violations(module), wrong) << what;
  clone.reset();
  EXPECT_EQ(print(*second), text) << what;
  expect_sound(*second);
}

TEST(Clone, has_the_text_of_the_original_for_every_text_of_the_tests) {
  int modules = 0;
  for (const char* folder : {"ir", "passes"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_tree() / "tests" / folder)) {
      if (entry.path().extension() != ".ir") continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      for (const cases::TextCase& one : cases::split_cases(text, entry.path().string())) {
        check_clone(*parse(one.text), entry.path().filename().string() + ": " + one.name);
        ++modules;
      }
    }
  EXPECT_GT(modules, 100);
}

TEST(Clone, has_the_text_of_the_original_for_random_modules) {
  for (uint64_t seed = 0; seed < 200; ++seed)
    check_clone(*RandomModule(seed).make(), "seed " + std::to_string(seed));
}

TEST(Clone, outlives_the_original_and_gives_the_same_names_and_ids) {
  auto module = parse(
      "graph @f(%x: f32[2]) -> f32[2] { %a = neg(%x) : f32[2] %b = call(%a) {callee=@g} : f32[2] return %b }"
      "graph @g(%x: f32[2]) -> f32[2] { %y = abs(%x) : f32[2] return %y }");
  Graph* graph = module->find_graph("f");
  graph->erase(
      graph->create("neg", {}, {}, std::vector<Type>{{DType::kF32, {2}}}, nullptr, "a"));  // a_1 was taken
  std::unique_ptr<Module> clone = module->clone();
  auto grow = [](Module& m) {
    Graph* f = m.find_graph("f");
    const Type type{DType::kF32, {2}};
    return f->create("neg", {}, {}, {&type, 1}, nullptr, "a");
  };
  const Op *here = grow(*module), *there = grow(*clone);
  EXPECT_EQ(here->id(), there->id());
  EXPECT_EQ(here->result()->name(), there->result()->name());
  module.reset();
  EXPECT_EQ(called_graphs(**std::next(clone->find_graph("f")->ops().begin()))[0], clone->find_graph("g"));
  EXPECT_TRUE(find_violations(*clone, Form::kFunctional).empty());
}

TEST(CloneGraph, keeps_order_edges_and_maps_values) {
  auto module = parse(
      "graph @f(%x: f32[] {by_reference, ipu=1}) -> () { #0: write(%x, %x) write(%x, %x) after(#0) return }");
  const Graph& graph = *module->find_graph("f");
  std::unordered_map<const Value*, Value*> map;
  Graph* copy = module->clone_graph(graph, "f", &map);
  EXPECT_EQ(copy->name(), "f_1");
  EXPECT_EQ(map.at(graph.inputs()[0]), copy->inputs()[0]);
  EXPECT_TRUE(copy->inputs()[0]->by_reference);
  EXPECT_EQ(copy->ops().back()->after[0], copy->ops().front().get());
  copy->erase(copy->ops().front().get());
  EXPECT_TRUE(copy->ops().back()->after.empty());
  EXPECT_EQ(graph.ops().back()->after.size(), 1u);
}

}  // namespace
}  // namespace ipu::ir
