// Building ops: defaults, canonical attributes, and every complaint about operands and attributes.
#include "ops/definition/build.h"

#include <gtest/gtest.h>

#include "ops/verify.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

class Build : public testing::Test {
 protected:
  ir::Value* input(DType dtype, Shape shape) { return graph_->add_input({dtype, std::move(shape)}, "x"); }
  std::string message_of(std::string_view kind, std::vector<ir::Value*> operands,
                         Attributes attributes = {}) {
    try {
      build_op(builder_, kind, operands, std::move(attributes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTypeMismatch);
      line_ = error.user_line();
      return error.message();
    }
    return "no error";
  }

  ir::Module module_;
  ir::Graph* graph_ = module_.add_graph("test");
  ir::Builder builder_{graph_};
  std::string line_;
};

TEST_F(Build, TypesFollowFromTheRule) {
  ir::Value* y = build(builder_, "add", {input(DType::kF32, {2, 1}), input(DType::kF32, {3})});
  EXPECT_EQ(ir::to_string(y->type()), "f32[2,3]");
  ir::Value* p = build(builder_, "less", {y, y});
  EXPECT_EQ(ir::to_string(p->type()), "bool[2,3]");
}

TEST_F(Build, LayoutFollowsTheOperandsOfTheResultsShape) {
  ir::Value* x = graph_->add_input({DType::kF32, {2, 3, 4, 4}, Layout::channels_last(4)}, "x");
  ir::Value* y = build(builder_, "mul", {builder_.scalar(DType::kF32, 2.0), x});
  EXPECT_EQ(y->type().layout, Layout::channels_last(4));
}

TEST_F(Build, AttributesEqualToTheirDefaultAreNotStored) {
  ir::Value* x = input(DType::kF32, {2});
  const ir::Op* plain = build(builder_, "leaky_relu", {x}, {{"slope", 0.01}})->producer();
  EXPECT_TRUE(plain->attributes.empty());
  EXPECT_EQ(std::get<double>(attribute_or_default(*plain, "slope")), 0.01);
  const ir::Op* other = build(builder_, "leaky_relu", {x}, {{"slope", int64_t{1}}})->producer();
  EXPECT_EQ(std::get<double>(attribute_or_default(*other, "slope")),
            1.0);  // an integer where a real is meant
}

TEST_F(Build, ShapesThatDoNotBroadcastNameTheOpAndItsOperands) {
  EXPECT_EQ(message_of("add", {input(DType::kF32, {2, 3}), input(DType::kF32, {4})}),
            "shape mismatch [IPU-E201]: [2,3] and [4] do not broadcast.\n  in: add(a: f32[2,3], b: f32[4])");
}

TEST_F(Build, DtypesAreNeverConvertedSilently) {
  EXPECT_EQ(
      message_of("add", {input(DType::kF32, {2}), input(DType::kI32, {2})}),
      "dtype mismatch [IPU-E201]: operands are f32 and i32; insert a cast, nothing is converted silently.\n"
      "  in: add(a: f32[2], b: i32[2])");
}

TEST_F(Build, DtypesOutsideTheDefinitionAreNamedWithTheAllowedOnes) {
  EXPECT_EQ(message_of("exp", {input(DType::kI32, {2})}),
            "dtype mismatch [IPU-E201]: operand 'x' of exp is i32; allowed are f32, f16, f64.\n  in: exp(x: "
            "i32[2])");
}

TEST_F(Build, TheNumberOfOperandsIsChecked) {
  EXPECT_EQ(message_of("add", {input(DType::kF32, {2})}),
            "operand count mismatch [IPU-E201]: add takes 2 operands, not 1.\n  in: add(a: f32[2])");
  EXPECT_EQ(message_of("exp", {nullptr}),
            "missing operand [IPU-E201]: 'x' of exp is not optional.\n  in: exp(x: none)");
}

TEST_F(Build, AttributesAreChecked) {
  ir::Value* x = input(DType::kF32, {2});
  EXPECT_EQ(message_of("relu", {x}, {{"slope", 1.0}}),
            "unknown attribute [IPU-E201]: relu has no attribute 'slope'.\n  in: relu(x: f32[2])");
  EXPECT_EQ(message_of("cast", {x}),
            "missing attribute [IPU-E201]: cast needs 'dtype'.\n  in: cast(x: f32[2])");
  EXPECT_EQ(message_of("gelu", {x}, {{"approximate", 1.0}}),
            "attribute mismatch [IPU-E201]: 'approximate' of gelu is of another kind than its default.\n"
            "  in: gelu(x: f32[2])");
}

TEST_F(Build, UnknownKindsAreRefused) {
  EXPECT_EQ(message_of("frobnicate", {input(DType::kF32, {2})}),
            "unknown operation [IPU-E201]: 'frobnicate' is not defined (docs/ops.md lists all).\n"
            "  in: frobnicate(f32[2])");
}

TEST_F(Build, ErrorsCarryTheUsersLine) {
  builder_.location = std::make_shared<ir::LocationData>(ir::LocationData{"model.py", 41, ""});
  message_of("exp", {input(DType::kI32, {2})});
  EXPECT_EQ(line_, "model.py:41");
}

TEST_F(Build, VerifierReportsResultsThatDisagreeWithTheRule) {
  ir::Value* x = input(DType::kF32, {2});
  builder_.create("exp", {x}, {}, {ir::Type{DType::kF32, {3}}});
  const std::vector<ir::Violation> violations = ops::find_violations(module_, ir::Form::kFunctional);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].what, "result 0 is f32[3], its type rule gives f32[2]");
  EXPECT_THROW(ops::verify(module_, ir::Form::kFunctional), Error);
}

TEST_F(Build, VerifierReportsLayoutsThatDisagree) {
  ir::Value* x = graph_->add_input({DType::kF32, {2, 3, 4, 4}, Layout::channels_last(4)}, "x");
  builder_.create("exp", {x}, {}, {ir::Type{DType::kF32, {2, 3, 4, 4}}});
  const std::vector<ir::Violation> violations = ops::find_violations(module_, ir::Form::kFunctional);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].what, "operand %x has layout acdb, result 0 has plain");
}

}  // namespace
}  // namespace ipu::ops
