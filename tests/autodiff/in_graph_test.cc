#include "autodiff/in_graph.h"

#include <gtest/gtest.h>

#include "autodiff/differentiate.h"
#include "ir/structure.h"
#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "tests/thrown.h"

namespace ipu::autodiff {
namespace {

int64_t count_kind(const ir::Graph& graph, const std::string& kind) {
  int64_t count = 0;
  for (const auto& op : graph.ops()) count += op->is(kind);
  return count;
}

TEST(GradientsInGraph, AreAppendedForAnyValueAndNullWhereNothingDepends) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
graph @forward(%x: f32[3], %other: f32[3]) -> f32[] {
  %h = mul(%x, %x) : f32[3]
  %y = reduce_sum(%h) {dims=[0], keep_dims=false} : f32[]
  return %y
})");
  ir::Graph& graph = *module->find_graph("forward");
  ir::Builder builder(&graph);
  builder.settings.block = "here";
  builder.settings.no_grad = true;
  const size_t before = graph.op_count();
  const auto found = gradients_in_graph(builder, {{graph.find_value("y"), builder.scalar(DType::kF32, 1.0)}},
                                        {graph.find_value("h"), graph.inputs()[0], graph.inputs()[1]});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(ir::to_string(found[0]->type()), "f32[3]");
  EXPECT_EQ(found[1]->producer()->settings.block, "here");
  EXPECT_TRUE(found[1]->producer()->settings.no_grad);
  EXPECT_EQ(found[2], nullptr);
  EXPECT_GT(graph.op_count(), before);
}

TEST(GradientsInGraph, GoThroughCallsWhoseSitesThenLackNothing) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %y = call(%x) {callee=@layer} : f32[3]
  return %y
}
graph @other(%x: f32[3]) -> f32[3] {
  %y = call(%x) {callee=@layer} : f32[3]
  return %y
}
graph @layer(%x: f32[3]) -> f32[3] {
  %t = tanh(%x) : f32[3]
  %s = sigmoid(%t) : f32[3]
  return %s
})");
  ir::Graph& graph = *module->find_graph("forward");
  ir::Builder builder(&graph);
  const auto found = gradients_in_graph(
      builder, {{graph.find_value("y"), builder.splat({DType::kF32, {3}}, 1.0)}}, {graph.inputs()[0]});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0], nullptr);
  EXPECT_EQ(module->find_graph("layer")->outputs().size(), 2u);
  EXPECT_NO_THROW(ir::verify(*module, ir::Form::kFunctional)) << ir::print(*module);
}

constexpr char kCustom[] = R"(
graph @pass(%upstream: f32[3], %saved: f32[3]) -> f32[3] {
  %g = mul(%upstream, %saved) : f32[3]
  return %g
}
graph @forward(%x: f32[3], %saved: f32[3]) -> f32[3] {
  %y = floor(%x) : f32[3]
  %z = custom_gradient(%y, %x, %saved) {arguments=1, gradient="pass", of=[0]} : f32[3]
  return %z
})";

TEST(CustomGradient, IsTheCallOfItsPassAndReachesArgumentsOnly) {
  std::unique_ptr<ir::Module> module = ir::parse(kCustom);
  ir::Graph& graph = *module->find_graph("forward");
  DifferentiateOptions options;
  options.required = {graph.inputs()[0]};
  const GradInfo info = differentiate(graph, options);
  EXPECT_EQ(count_kind(*info.graph, "call"), 1);
  const ir::Op& op = *graph.find_value("z")->producer();
  EXPECT_FALSE(takes_gradient(op, 0));
  EXPECT_TRUE(takes_gradient(op, 1));
  EXPECT_FALSE(takes_gradient(op, 2));
}

TEST(CustomGradient, IsItsFirstOperandsOnceDropped) {
  std::unique_ptr<ir::Module> module = ir::parse(kCustom);
  ir::Graph& graph = *module->find_graph("forward");
  drop_custom_gradients(graph);
  EXPECT_EQ(count_kind(graph, "custom_gradient"), 0);
  EXPECT_EQ(graph.outputs()[0], graph.find_value("y"));
}

constexpr char kOpen[] = R"(
graph @forward(%x: f32[3], %other: f32[3]) -> f32[3] {
  %a = custom_gradient(%x, %x) {arguments=1, call=0, function="First"} : f32[3]
  %b = custom_gradient(%a, %a) {arguments=1, call=1, function="Second"} : f32[3]
  %c = custom_gradient(%x, %other) {arguments=1, call=2, function="Third"} : f32[3]
  %d = detach(%c) : f32[3]
  %y = mul(%b, %d) : f32[3]
  return %y
})";

TEST(CustomGradient, WithoutAGraphIsAskedForByWhoStandsInTheForwardPass) {
  std::unique_ptr<ir::Module> module = ir::parse(kOpen);
  ir::Graph& graph = *module->find_graph("forward");
  ir::Builder builder(&graph);
  std::vector<std::string> asked;
  const auto pass = [&](const ir::Op& op, const std::vector<ir::Value*>& upstream) {
    asked.push_back(op.attributes.text("function"));
    return std::vector<ir::Value*>{upstream[0]};
  };
  const auto found = gradients_in_graph(
      builder, {{graph.find_value("y"), builder.splat({DType::kF32, {3}}, 1.0)}}, {graph.inputs()[0]}, pass);
  EXPECT_NE(found[0], nullptr);
  EXPECT_EQ(asked, (std::vector<std::string>{"Second", "First"}));
}

TEST(CustomGradient, WithoutAGraphIsAnErrorElsewhere) {
  std::unique_ptr<ir::Module> module = ir::parse(kOpen);
  ir::Graph& graph = *module->find_graph("forward");
  DifferentiateOptions options;
  options.required = {graph.inputs()[0]};
  const std::string message = message_of([&] { differentiate(graph, options); });
  EXPECT_NE(message.find("autograd.Function Second, called in the body"), std::string::npos) << message;
}

TEST(CustomGradient, IsBehindAValueWhereAGradientOfThatReachesIt) {
  std::unique_ptr<ir::Module> module = ir::parse(kOpen);
  const ir::Graph& graph = *module->find_graph("forward");
  std::vector<int64_t> calls;
  for (const ir::Op* op : custom_gradients_behind(graph, graph.find_value("y")))
    calls.push_back(op->attributes.integer("call"));
  EXPECT_EQ(calls, (std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(custom_gradients_behind(graph, graph.find_value("d")).empty());
}

}  // namespace
}  // namespace ipu::autodiff
