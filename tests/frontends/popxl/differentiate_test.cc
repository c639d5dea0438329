// Gradient graphs have the published structure, and rewrites of sums and exchanges too.
#include "frontends/popxl/differentiate.h"

#include <gtest/gtest.h>

#include "frontends/popxl/to_module.h"
#include "frontends/popxl/transforms.h"
#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "tests/frontends/popxl/program_builder.h"
#include "tests/thrown.h"

namespace ipu::popxl {
namespace {

std::vector<std::string> types(const Graph& graph) {
  std::vector<std::string> found;
  for (const auto& [id, op] : graph.ops()) found.push_back(op->kind().type);
  return found;
}

std::vector<std::string> names(const std::vector<Tensor*>& tensors) {
  std::vector<std::string> found;
  for (const Tensor* tensor : tensors) found.emplace_back(tensor->name());
  return found;
}

// tanh(x w) s, called once.
struct Net {
  Program program;
  Graph& graph = program.create_graph("f_subgraph(0)");
  Tensor &x = add_input(graph, "x", f32({2, 3})), &w = add_input(graph, "w", f32({3, 4})),
         &s = add_input(graph, "s", f32({4}));
  Tensor& product = add(graph, "MatMul", {&x, &w});
  Tensor& tanh = add(graph, "Tanh", {&product});
  Tensor& y = add(graph, "Mul", {&tanh, &s});
  Op* call = nullptr;
  Net() {
    graph.outputs.push_back(&y);
    call = &add_call(program.main(), graph,
                     {&add_variable(program, "x", f32({2, 3})), &add_variable(program, "w", f32({3, 4})),
                      &add_variable(program, "s", f32({4}))});
  }
};

TEST(PopxlDifferentiate, OneGradientOpForEachArgumentAndOneSumForEachTensor) {
  Net net;
  const auto infos = differentiate(net.graph, {}, std::vector<std::string>{net.w.id()}, {});
  const Graph& gradient = net.program.graph(infos.at(net.graph.id()).graph_id);
  EXPECT_EQ(gradient.id(), "f_subgraph(0)_bwd");
  EXPECT_EQ(types(gradient),
            (std::vector<std::string>{"MulArg0Grad", "Sum", "TanhGrad", "Sum", "MatMulRhsGrad", "Sum"}));
  EXPECT_EQ(names(gradient.outputs), std::vector<std::string>{"Gradient___w"});
  // The gradient of a product takes both factors and the product.
  EXPECT_EQ(names(gradient.inputs),
            (std::vector<std::string>{"Gradient___Mul_out", "Mul_out", "Tanh_out", "s", "x"}));
}

TEST(PopxlDifferentiate, ValuesTheGradientNeedsBecomeOutputsOfTheGraphAndItsCalls) {
  Net net;
  differentiate(net.graph, {}, std::vector<std::string>{net.w.id()}, {});
  EXPECT_EQ(names(net.graph.outputs), (std::vector<std::string>{"Mul_out", "Tanh_out"}));
  ASSERT_EQ(net.call->outputs().size(), 2u);
  EXPECT_EQ(net.call->output(1)->id().rfind("autodiff_output__t", 0), 0u);
  EXPECT_EQ(net.call->output(1)->info, f32({2, 4}));
}

TEST(PopxlDifferentiate, ValuesAreMadeAgainWhereThatIsAskedFor) {
  Net net;
  const auto infos =
      differentiate(net.graph, {}, std::vector<std::string>{net.w.id()}, {}, Stitch::kRecomputeAllNonInputs);
  EXPECT_EQ(net.graph.outputs.size(), 1u);
  for (const ExpectedConnection& input : infos.at(net.graph.id()).inputs)
    if (input.type == ConnectionType::kFwd) {
      EXPECT_TRUE(input.forward_id == net.x.id() || input.forward_id == net.w.id() ||
                  input.forward_id == net.s.id())
          << input.forward_id;
    }
}

TEST(PopxlDifferentiate, CalledGraphsAreDifferentiatedFirstAndOnce) {
  Net net;
  Graph& outer = net.program.create_graph("outer_subgraph(1)");
  Tensor &x = add_input(outer, "x", f32({2, 3})), &w = add_input(outer, "w", f32({3, 4})),
         &s = add_input(outer, "s", f32({4}));
  Op& inner = add_call(outer, net.graph, {&x, &w, &s});
  outer.outputs.push_back(inner.output(0));
  const auto infos = differentiate(outer, {}, std::nullopt, {});
  EXPECT_EQ(infos.size(), 2u);
  EXPECT_EQ(types(net.program.graph("outer_subgraph(1)_bwd")),
            (std::vector<std::string>{"CallGrad", "Sum", "Sum", "Sum"}));
  const auto again = differentiate(outer, {inner.output(0)->id()}, std::nullopt,
                                   {{net.graph.id(), infos.at(net.graph.id())}});
  EXPECT_EQ(again.at(net.graph.id()).graph_id, infos.at(net.graph.id()).graph_id);
}

TEST(PopxlDifferentiate, WritesAreRefusedWithTheGraph) {
  Net net;
  Op& write = net.graph.create_op(kind_of("AddLhsInplace"), {}, {}, {});
  write.connect_input(0, net.tanh);
  write.connect_input(1, net.tanh);
  write.create_output(0, net.graph.unique_id("out"));
  const std::string message = message_of([&] { differentiate(net.graph, {}, std::nullopt, {}); });
  EXPECT_NE(message.find("f_subgraph(0)"), std::string::npos) << message;
  EXPECT_NE(message.find("AddLhsInplace"), std::string::npos) << message;
}

TEST(PopxlDifferentiate, AGradientThatDoesNotAriseIsRefusedAndLeavesNothing) {
  Net net;
  Tensor& unused = add_input(net.graph, "unused", f32({2}));
  const size_t graphs = net.program.graphs().size();
  EXPECT_NE(message_of([&] {
              differentiate(net.graph, {}, std::vector<std::string>{unused.id()}, {});
            }).find("no gradient arises"),
            std::string::npos);
  EXPECT_EQ(net.program.graphs().size(), graphs);
  EXPECT_EQ(net.graph.outputs.size(), 1u);
}

TEST(PopxlTransforms, ASumBecomesAChainFromZero) {
  Program program;
  Graph& main = program.main();
  Tensor &a = add_variable(program, "a", f32({2})), &b = add_variable(program, "b", f32({2})),
         &c = add_variable(program, "c", f32({2}));
  Tensor& total = add(main, "Sum", {&a, &b, &c});
  decompose_sums(main);
  EXPECT_EQ(types(main), (std::vector<std::string>{"Init", "Add", "Add", "Add"}));
  EXPECT_EQ(total.producer()->id(), main.ops().rbegin()->first);
  EXPECT_NE(main.find_tensor("Sum_out_init"), nullptr);
  EXPECT_NE(main.find_tensor("Sum_out_1"), nullptr);
}

// --- the IR of it

TEST(PopxlModule, AGradientIsThatOfTheCore) {
  Net net;
  const auto infos = differentiate(net.graph, {}, std::vector<std::string>{net.w.id()}, {});
  Graph& gradient = net.program.graph(infos.at(net.graph.id()).graph_id);
  Op& backward = net.program.main().create_op(kind_of("Call"), {}, {}, {});
  backward.callees = std::vector<Graph*>{&gradient};
  backward.connect_input(0, add_variable(net.program, "dy", f32({2, 4})));
  backward.connect_input(1, *net.call->output(0));
  backward.connect_input(2, *net.call->output(1));
  backward.connect_input(3, *net.call->input(2));
  backward.connect_input(4, *net.call->input(0));
  backward.create_output(0, "dw");
  backward.setup();
  const std::unique_ptr<ir::Module> module = to_module(net.program);
  const std::string text = ir::print(*module);
  EXPECT_NE(text.find("tanh_gradient(%Tanh_out"), std::string::npos) << text;
  // Nothing of the forward pass is computed again for it.
  EXPECT_EQ(text.find("= tanh(", text.find("graph @\"f_subgraph(0)_bwd\"")), std::string::npos) << text;
}

TEST(PopxlModule, GraphsThatCallThemselvesAreRefused) {
  Net net;
  Op& self = net.graph.create_op(kind_of("Call"), {}, {}, {});
  self.callees = std::vector<Graph*>{&net.graph};
  EXPECT_NE(message_of([&] {
              to_module(net.program);
            }).find("graph calls itself [IPU-E202]: graph 'f_subgraph(0)'"),
            std::string::npos);
}

TEST(PopxlModule, AnInputThatIsNotConnectedIsNamed) {
  Net net;
  net.call->disconnect_input(1);
  EXPECT_NE(message_of([&] { to_module(net.program); }).find("input not connected [IPU-E202]: Call"),
            std::string::npos);
}

}  // namespace
}  // namespace ipu::popxl
