// Ops that move to another graph, and the names of a graph that many values come and go in.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "support/error.h"

namespace ipu::ir {
namespace {

// %a of the callee is an output twice; %x is handed on as it is; names meet those of the caller.
constexpr const char* kText = R"(
  graph @main(%x: f32[2], %a: f32[2]) -> (f32[2], f32[2], f32[2]) {
    %first = add(%x, %a) : f32[2]
    %0, %1, %2 = call(%first, %x) {callee=@part} : f32[2], f32[2], f32[2]
    %last = mul(%0, %2) : f32[2]
    return %last, %1, %2
  }
  graph @part(%x: f32[2], %y: f32[2]) -> (f32[2], f32[2], f32[2]) {
    %a = mul(%x, %y) {note="kept"} : f32[2] loc("m.py":3, "a")
    %b = add(%a, %x) : f32[2]
    %first = add(%b, %a) : f32[2]
    return %a, %y, %first
  })";

Op* call_of(Graph& graph) {
  for (const auto& op : graph.ops())
    if (op->is("call")) return op.get();
  return nullptr;
}

std::string uses(const Graph& graph) {
  std::string text;
  auto list = [&](const Value& value) {
    text += value.name() + ":";
    for (const Use& use : value.uses())
      text += " " + std::to_string(use.user->id()) + "." + std::to_string(use.index);
    text += " " + std::to_string(value.output_count()) + "\n";
  };
  for (const Value* input : graph.inputs()) list(*input);
  for (const auto& op : graph.ops())
    for (int i = 0; i < op->result_count(); ++i) list(*op->result(i));
  return text;
}

void finish(Graph& main, Op* call, const std::vector<Value*>& outputs) {
  for (int i = 0; i < call->result_count(); ++i)
    call->result(i)->replace_all_uses_with(outputs[static_cast<size_t>(i)]);
  main.erase(call);
}

TEST(TakeOver, leaves_what_copies_would) {
  std::unique_ptr<Module> moved = parse(kText), copied = parse(kText);
  {
    Graph &main = *moved->find_graph("main"), &part = *moved->find_graph("part");
    Op* call = call_of(main);
    finish(main, call, main.take_over(part, std::vector<Value*>{call->operand(0), call->operand(1)}, call));
    EXPECT_TRUE(part.ops().empty());
    EXPECT_TRUE(part.outputs().empty());
    for (const Value* input : part.inputs()) {
      EXPECT_TRUE(input->is_unused());
      EXPECT_EQ(part.find_value(input->name()), input);
    }
    EXPECT_EQ(part.find_value("a"), nullptr);
    moved->erase_graph(&part);
  }
  {
    Graph &main = *copied->find_graph("main"), &part = *copied->find_graph("part");
    Op* call = call_of(main);
    std::vector<Value*> results;  // of one result each, in order
    auto here = [&](const Value* value) {
      if (value->producer() == nullptr) return call->operand(value->index());
      size_t position = 0;
      for (const auto& op : part.ops()) {
        if (op.get() == value->producer()) break;
        ++position;
      }
      return results[position];
    };
    for (const auto& op : part.ops())
      results.push_back(
          main.copy(*op, std::vector<Value*>{here(op->operand(0)), here(op->operand(1))}, call)->result());
    std::vector<Value*> outputs;
    for (const Value* output : part.outputs()) outputs.push_back(here(output));
    finish(main, call, outputs);
    copied->erase_graph(&part);
  }
  EXPECT_EQ(print(*moved), print(*copied));
  EXPECT_EQ(uses(*moved->find_graph("main")), uses(*copied->find_graph("main")));
  EXPECT_TRUE(find_violations(*moved, Form::kFunctional).empty());
}

TEST(TakeOver, is_within_one_module_and_without_order_edges) {
  std::unique_ptr<Module> module = parse(kText), other = parse(kText);
  Graph& main = *module->find_graph("main");
  const std::vector<Value*> two{main.inputs()[0], main.inputs()[1]};
  EXPECT_THROW(main.take_over(main, two), Error);
  EXPECT_THROW(main.take_over(*other->find_graph("part"), two), Error);
  EXPECT_THROW(main.take_over(*module->find_graph("part"), std::vector<Value*>{}), Error);
  Graph& part = *module->find_graph("part");
  part.ops().front()->after.push_back(part.ops().back().get());
  EXPECT_THROW(main.take_over(part, two), Error);
}

TEST(Names, are_found_after_any_order_of_coming_and_going) {
  Module module;
  Graph* graph = module.add_graph("g");
  const Type type{DType::kF32, {2}};
  std::vector<std::string> there;
  uint32_t random = 1;
  for (int round = 0; round < 4000; ++round) {
    random = random * 1664525 + 1013904223;
    if (there.empty() || random >> 30 != 0) {
      there.push_back(
          graph->create("thing", {}, {}, std::vector<Type>{type}, nullptr, "v")->result()->name());
      continue;
    }
    const size_t i = (random >> 8) % there.size();
    Value* value = graph->find_value(there[i]);
    ASSERT_NE(value, nullptr);
    if ((random >> 7 & 1) != 0) {
      graph->rename(value, "renamed");
      if (value->name() != there[i]) {
        EXPECT_EQ(graph->find_value(there[i]), nullptr);
      }
      there[i] = value->name();
      continue;
    }
    graph->erase(value->producer());
    EXPECT_EQ(graph->find_value(there[i]), nullptr);
    there.erase(there.begin() + static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_EQ(graph->op_count(), there.size());
  for (const std::string& name : there) EXPECT_EQ(graph->find_value(name)->name(), name);
}

}  // namespace
}  // namespace ipu::ir
