// Importers of the elementwise families: dtype promotion, Scalar arguments, what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/interpreter/literal_call.h"

namespace ipu::ops {
namespace {

class Import : public testing::Test {
 protected:
  ir::Value* input(DType dtype, Shape shape, std::vector<double> values) {
    ir::Type type{dtype, std::move(shape)};
    inputs_.push_back({type, std::move(values)});
    return graph_->add_input(type, "x");
  }
  std::vector<double> run(std::string overload, std::map<std::string, Literal, std::less<>> arguments,
                          ir::Type result) {
    LiteralCall call(graph_, std::move(overload), std::move(arguments), {std::move(result)});
    call.import();
    graph_->append_output(call.results()[0]);
    return Interpreter(module_).run(*graph_, inputs_).back().values;
  }
  std::string message_of(std::string overload, std::map<std::string, Literal, std::less<>> arguments,
                         ir::Type result) {
    try {
      run(std::move(overload), std::move(arguments), std::move(result));
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  }

  ir::Module module_;
  ir::Graph* graph_ = module_.add_graph("test");
  std::vector<ReferenceTensor> inputs_;
};

using Values = std::vector<double>;

TEST_F(Import, PlainUnaryTakesTheArgumentTorchCallsSelf) {
  ir::Value* x = input(DType::kF32, {2}, {0, 1});
  EXPECT_EQ(run("exp", {{"self", x}}, {DType::kF32, {2}})[0], 1.0);
}

TEST_F(Import, IntegersBecomeFloatsWhereTorchSaysSo) {
  ir::Value* x = input(DType::kI32, {2}, {3, 7});
  EXPECT_EQ(run("div.Tensor", {{"self", x}, {"other", int64_t{2}}}, {DType::kF32, {2}}), (Values{1.5, 3.5}));
  EXPECT_EQ(run("sqrt", {{"self", x}}, {DType::kF32, {2}})[0], round_to(DType::kF32, std::sqrt(3.0)));
}

TEST_F(Import, AlphaScalesTheSecondOperand) {
  ir::Value* x = input(DType::kF32, {2}, {3, 7});
  ir::Value* y = input(DType::kF32, {2}, {1, 2});
  EXPECT_EQ(run("add.Tensor", {{"self", x}, {"other", y}, {"alpha", 2.0}}, {DType::kF32, {2}}),
            (Values{5, 11}));
  EXPECT_EQ(
      run("rsub.Scalar", {{"self", x}, {"other", int64_t{1}}, {"alpha", int64_t{2}}}, {DType::kF32, {2}}),
      (Values{-5, -13}));
}

TEST_F(Import, BoolArithmeticIsLogic) {
  ir::Value* x = input(DType::kBool, {4}, {0, 0, 1, 1});
  ir::Value* y = input(DType::kBool, {4}, {0, 1, 0, 1});
  EXPECT_EQ(run("add.Tensor", {{"self", x}, {"other", y}}, {DType::kBool, {4}}), (Values{0, 1, 1, 1}));
  EXPECT_EQ(run("mul.Tensor", {{"self", x}, {"other", y}}, {DType::kBool, {4}}), (Values{0, 0, 0, 1}));
  EXPECT_EQ(message_of("add.Tensor", {{"self", x}, {"other", y}, {"alpha", int64_t{2}}}, {DType::kBool, {4}}),
            "unsupported operation [IPU-E101]: aten::add.Tensor: alpha of a sum of bools must be 1.");
}

TEST_F(Import, ComparisonPromotesAsTorch) {
  ir::Value* ints = input(DType::kI32, {3}, {1, 2, 3});
  // A float Scalar beats an integer tensor.
  EXPECT_EQ(run("gt.Scalar", {{"self", ints}, {"other", 1.5}}, {DType::kBool, {3}}), (Values{0, 1, 1}));
  // A Scalar does not widen a half tensor: 2049 rounds to the half 2048.
  ir::Value* halves = input(DType::kF16, {1}, {2048});
  EXPECT_EQ(run("eq.Scalar", {{"self", halves}, {"other", 2049.0}}, {DType::kBool, {1}}), (Values{1}));
  // A tensor with dimensions beats a 0-d tensor of the same category.
  ir::Value* single = input(DType::kF32, {}, {2049});
  EXPECT_EQ(run("eq.Tensor", {{"self", halves}, {"other", single}}, {DType::kBool, {1}}), (Values{1}));
}

TEST_F(Import, DivisionRoundsAsAsked) {
  ir::Value* x = input(DType::kI32, {3}, {-7, 7, 6});
  std::map<std::string, Literal, std::less<>> floor{
      {"self", x}, {"other", int64_t{2}}, {"rounding_mode", std::string("floor")}};
  std::map<std::string, Literal, std::less<>> trunc{
      {"self", x}, {"other", int64_t{2}}, {"rounding_mode", std::string("trunc")}};
  EXPECT_EQ(run("div.Tensor_mode", floor, {DType::kI32, {3}}), (Values{-4, 3, 3}));
  EXPECT_EQ(run("div.Tensor_mode", trunc, {DType::kI32, {3}}), (Values{-3, 3, 3}));
  ir::Value* y = input(DType::kF32, {3}, {-7, 7, 6});
  floor["self"] = trunc["self"] = y;
  EXPECT_EQ(run("div.Tensor_mode", floor, {DType::kF32, {3}}), (Values{-4, 3, 3}));
  EXPECT_EQ(run("div.Tensor_mode", trunc, {DType::kF32, {3}}), (Values{-3, 3, 3}));
}

TEST_F(Import, PowerByACommonConstantIsAProduct) {
  ir::Value* x = input(DType::kF32, {2}, {-3, 2});
  EXPECT_EQ(run("pow.Tensor_Scalar", {{"self", x}, {"exponent", int64_t{3}}}, {DType::kF32, {2}}),
            (Values{-27, 8}));
  for (const auto& op : graph_->ops()) EXPECT_FALSE(op->is("pow"));
}

TEST_F(Import, ClampTakesNumbersAndTensors) {
  ir::Value* x = input(DType::kF32, {3}, {-3, 0, 3});
  ir::Value* low = input(DType::kF32, {3}, {-1, 1, 1});
  EXPECT_EQ(run("clamp", {{"self", x}, {"min", int64_t{-1}}, {"max", 2.0}}, {DType::kF32, {3}}),
            (Values{-1, 0, 2}));
  EXPECT_EQ(run("clamp_min.Tensor", {{"self", x}, {"min", low}}, {DType::kF32, {3}}), (Values{-1, 1, 3}));
}

TEST_F(Import, BitwiseOpsRefuseBytes) {
  ir::Value* x = input(DType::kU8, {1}, {3});
  EXPECT_EQ(message_of("bitwise_not", {{"self", x}}, {DType::kU8, {1}}),
            "unsupported operation [IPU-E101]: aten::bitwise_not: bitwise ops on int8 and uint8; cast to "
            "int32 first.");
}

TEST_F(Import, MaskedFillPutsTheValueWhereTheMaskHolds) {
  ir::Value* x = input(DType::kF32, {3}, {1, 2, 3});
  ir::Value* mask = input(DType::kBool, {3}, {1, 0, 1});
  EXPECT_EQ(run("masked_fill.Scalar", {{"self", x}, {"mask", mask}, {"value", -1.0}}, {DType::kF32, {3}}),
            (Values{-1, 2, -1}));
}

TEST_F(Import, RoundToDecimalsCountsThemFromThePoint) {
  ir::Value* x = input(DType::kF32, {2}, {2.54, -14.46});
  EXPECT_EQ(run("round.decimals", {{"self", x}, {"decimals", int64_t{1}}}, {DType::kF32, {2}}),
            (Values{2.5, -14.5}));
  EXPECT_EQ(run("round.decimals", {{"self", x}, {"decimals", int64_t{-1}}}, {DType::kF32, {2}}),
            (Values{0, -10}));
}

}  // namespace
}  // namespace ipu::ops
