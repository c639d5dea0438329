// The structure of programs: ids, numbers, edits, and what is refused.
#include <gtest/gtest.h>

#include "tests/frontends/popxl/program_builder.h"
#include "tests/thrown.h"

namespace ipu::popxl {
namespace {

TEST(PopxlProgram, OpsCountFrom100OverAllGraphs) {
  Program program;
  Graph& graph = program.create_graph(program.unique_subgraph_id("f"));
  Tensor& x = add_variable(program, "x", f32({2}));
  Tensor& y = add_input(graph, "x", f32({2}));
  EXPECT_EQ(add_op(program.main(), "Exp", {&x}).id(), 100);
  EXPECT_EQ(add_op(graph, "Exp", {&y}).id(), 101);
  Op& last = add_op(program.main(), "Tanh", {&x});
  program.main().erase_op(last);
  EXPECT_EQ(add_op(program.main(), "Tanh", {&x}).id(), 103);  // ids are not used again
}

TEST(PopxlProgram, TheFirstHolderOfANameKeepsIt) {
  Program program;
  EXPECT_EQ(add_variable(program, "x", f32({})).id(), "x");
  EXPECT_EQ(add_variable(program, "x", f32({})).id(), "x__t0");
  Graph& graph = program.create_graph(program.unique_subgraph_id("f"));
  EXPECT_EQ(graph.id(), "f_subgraph(0)");
  Tensor& inner = add_input(graph, "layer/x", f32({}));
  EXPECT_EQ(inner.id(), "f_subgraph(0)/layer/x");
  EXPECT_EQ(inner.name(), "layer/x");
  EXPECT_EQ(program.unique_subgraph_id("g"), "g_subgraph(1)");
}

TEST(PopxlProgram, AnErasedOpLeavesItsTensorsAndTakesItsEdges) {
  Program program;
  Graph& main = program.main();
  Tensor& x = add_variable(program, "x", f32({2}));
  Op &a = add_op(main, "Exp", {&x}), &b = add_op(main, "Tanh", {&x}), &c = add_op(main, "Relu", {&x});
  Tensor& made = *b.output(0);
  main.add_edge(a, b);
  main.add_edge(b, c);
  main.erase_op(b);
  EXPECT_TRUE(main.after(a).empty());
  EXPECT_TRUE(main.before(c).empty());
  EXPECT_EQ(main.find_tensor(made.id()), &made);
  EXPECT_EQ(made.producer(), nullptr);
  EXPECT_EQ(x.uses().size(), 2u);
  c.connect_input(0, made);
  EXPECT_EQ(made.uses().size(), 1u);
  EXPECT_NE(message_of([&] { main.erase_tensor(made); }).find("tensor in use"), std::string::npos);
}

TEST(PopxlProgram, TypesFollowFromTheInputs) {
  Program program;
  Tensor& x = add_variable(program, "x", f32({2, 1}));
  Tensor& y = add_variable(program, "y", f32({3}));
  EXPECT_EQ(add(program.main(), "Add", {&x, &y}).info, f32({2, 3}));
  // A wider type than the device has stays what it is.
  Tensor& i = add_variable(program, "i", {DataType::kInt64, {2}, {}});
  EXPECT_EQ(add(program.main(), "Add", {&i, &i}).info.dtype, DataType::kInt64);
}

TEST(PopxlProgram, InputsThatDoNotFitAreNamed) {
  Program program;
  Tensor& x = add_variable(program, "x", f32({2}));
  Tensor& y = add_variable(program, "y", f32({3}));
  const std::string message = message_of([&] { add_op(program.main(), "Add", {&x, &y}); });
  for (const char* part : {"Add", "the main graph", "'x' FLOAT(2)", "'y' FLOAT(3)"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(PopxlProgram, TensorsOfOtherGraphsAreRefused) {
  Program program;
  Graph& graph = program.create_graph("f_subgraph(0)");
  Tensor& x = add_variable(program, "x", f32({2}));
  EXPECT_NE(message_of([&] {
              add_op(graph, "Exp", {&x});
            }).find("tensor of another graph [IPU-E202]: 'x' is in the main graph"),
            std::string::npos);
}

TEST(PopxlProgram, AGraphInUseIsNotRemoved) {
  Program program;
  Graph& graph = program.create_graph("f_subgraph(0)");
  Tensor& in = add_input(graph, "x", f32({2}));
  graph.outputs.push_back(&in);
  Tensor& x = add_variable(program, "x", f32({2}));
  Op& call = add_call(program.main(), graph, {&x});
  EXPECT_NE(message_of([&] { program.erase_graph(graph); }).find("graph in use"), std::string::npos);
  program.main().erase_op(call);
  program.erase_graph(graph);
  EXPECT_EQ(program.find_graph("f_subgraph(0)"), nullptr);
}

// --- schedule

TEST(PopxlSchedule, OperandsAndEdgesDecide) {
  Program program;
  Graph& main = program.main();
  Tensor& x = add_variable(program, "x", f32({2}));
  Op &a = add_op(main, "Exp", {&x}), &b = add_op(main, "Tanh", {&x});
  Op& c = add_op(main, "Add", {a.output(0), b.output(0)});
  main.add_edge(b, a);
  EXPECT_EQ(main.schedule(), (std::vector<Op*>{&b, &a, &c}));
}

TEST(PopxlSchedule, OpsThatAddFewerBytesGoFirst) {
  Program program;
  Graph& main = program.main();
  Tensor &x = add_variable(program, "x", f32({1024})), &y = add_variable(program, "y", f32({2}));
  Op &large = add_op(main, "Exp", {&x}), &small = add_op(main, "Exp", {&y});
  EXPECT_EQ(main.schedule(), (std::vector<Op*>{&small, &large}));
}

TEST(PopxlSchedule, TiedOpsStandTogether) {
  Program program;
  Graph& main = program.main();
  Tensor& x = add_variable(program, "x", f32({2}));
  Op &a = add_op(main, "Exp", {&x}), &b = add_op(main, "Tanh", {&x}), &c = add_op(main, "Relu", {&x});
  main.add_edge(a, c, true);
  main.add_edge(b, c);
  EXPECT_EQ(main.schedule(), (std::vector<Op*>{&b, &a, &c}));
}

TEST(PopxlSchedule, ACircleOfEdgesIsNamed) {
  Program program;
  Graph& main = program.main();
  Tensor& x = add_variable(program, "x", f32({2}));
  Op &a = add_op(main, "Exp", {&x}), &b = add_op(main, "Tanh", {a.output(0)});
  main.add_edge(b, a);
  const std::string message = message_of([&] { main.schedule(); });
  EXPECT_NE(message.find("ops in a circle"), std::string::npos);
  EXPECT_NE(message.find("100 Exp, 101 Tanh"), std::string::npos) << message;
}

TEST(PopxlSchedule, CostsGrowWithTheOps) {
  Program program;
  Graph& main = program.main();
  Tensor* x = &add_variable(program, "x", f32({2}));
  Op* last = nullptr;
  for (int i = 0; i < 20000; ++i) {
    Op& op = add_op(main, "Exp", {x});
    if (last != nullptr) main.add_edge(*last, op);
    last = &op;
  }
  EXPECT_EQ(main.schedule().back(), last);
}

}  // namespace
}  // namespace ipu::popxl
