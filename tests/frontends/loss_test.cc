#include <gtest/gtest.h>

#include "frontends/common/step_builder.h"
#include "ir/text/text.h"
#include "ops/definition/op_def.h"
#include "support/error.h"

namespace ipu::frontends {
namespace {

ErrorCode code_of(const std::string& text, const std::string& part) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  try {
    find_final_loss(*module->find_graph("forward"));
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kInternal;
}

TEST(FinalLoss, IsTheLastOfLossesThatFeedEachOther) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
graph @forward(%a: f32[3], %b: f32[3], %c: f32[3]) -> f32[] {
  %one = mse_loss(%a, %b) {reduction="mean"} : f32[]
  %two = l1_loss(%a, %c) {reduction="sum"} : f32[]
  %sum = add(%one, %two) : f32[]
  %loss = identity_loss(%sum) {reduction="none"} : f32[]
  %after = neg(%loss) : f32[]
  return %after
})");
  EXPECT_EQ(find_final_loss(*module->find_graph("forward"))->name(), "loss");
}

TEST(FinalLoss, LossesOfDetachedValuesDoNotCount) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
graph @forward(%x: f32[3], %w: f32[3]) -> (f32[], f32[]) {
  %loss = mse_loss(%x, %w) {reduction="mean"} : f32[]
  %stopped = detach(%w) : f32[3]
  %metric = l1_loss(%x, %stopped) {reduction="sum"} : f32[]
  return %loss, %metric
})");
  EXPECT_EQ(find_final_loss(*module->find_graph("forward"), 1)->name(), "loss");
}

TEST(FinalLoss, ALossWhoseGradientForwardTakesIsTheLastChoice) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
graph @forward(%a: f32[3], %b: f32[3]) -> (f32[], f32[]) {
  %inner = mse_loss(%a, %b) {reduction="mean"} : f32[]
  %loss = l1_loss(%a, %b) {reduction="sum"} : f32[]
  return %inner, %loss
})");
  ir::Graph& graph = *module->find_graph("forward");
  ir::Op* inner = graph.find_value("inner")->producer();
  ir::Op* other = graph.find_value("loss")->producer();
  inner->settings.outline.set(kInnerLoss, true);
  EXPECT_EQ(final_loss_of(graph), other);
  other->settings.no_grad = true;
  EXPECT_EQ(final_loss_of(graph), inner);
  inner->settings.outline.set(kInnerLoss, false);  // its graph is gone
  EXPECT_EQ(final_loss_of(graph), nullptr);
}

TEST(FinalLoss, IndependentLossesAreNamedWithTheirLines) {
  EXPECT_EQ(code_of(R"(
graph @forward(%a: f32[3], %b: f32[3], %c: f32[3]) -> (f32[], f32[]) {
  %one = mse_loss(%a, %b) {reduction="mean"} : f32[] loc("model.py":4)
  %two = l1_loss(%a, %c) {reduction="sum"} : f32[] loc("model.py":5)
  return %one, %two
})",
                    "these do not feed the last one, 'l1_loss' at model.py:5:\n  'mse_loss' at model.py:4"),
            ErrorCode::kSeveralLosses);
}

TEST(FinalLoss, MissingLossIsRefused) {
  EXPECT_EQ(code_of("graph @forward(%a: f32[3]) -> f32[3] { return %a }", "needs exactly one final loss"),
            ErrorCode::kNoLoss);
}

TEST(FinalLoss, LossWithoutReductionIsRefused) {
  EXPECT_EQ(code_of(R"(
graph @forward(%a: f32[3], %b: f32[3]) -> f32[3] {
  %one = mse_loss(%a, %b) {reduction="none"} : f32[3] loc("model.py":4)
  return %one
})",
                    "'mse_loss' at model.py:4 has shape [3]"),
            ErrorCode::kNotDifferentiable);
}

}  // namespace
}  // namespace ipu::frontends
