// Expression trees: values of edge cases, sharing of subtrees, code of the pointwise VM.
#include "ops/expression/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/error.h"

namespace ipu::ops {
namespace {

using kernels::OpCode;
using kernels::PointwiseProgram;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double value(Func func, DType dtype, double a, double b) {
  const double inputs[] = {a, b};
  return evaluate(binary(func, Expr::input(0, dtype), Expr::input(1, dtype)), inputs);
}
double value(Func func, DType dtype, double a) {
  return evaluate(unary(func, Expr::input(0, dtype)), {&a, 1});
}
double value_of_cast(DType from, DType to, double a) {
  return evaluate(cast(Expr::input(0, from), to), {&a, 1});
}

std::vector<OpCode> codes(const PointwiseProgram& program) {
  std::vector<OpCode> list;
  for (const kernels::Instruction& i : program.code) list.push_back(i.code);
  return list;
}
PointwiseProgram compiled(const Expr& tree, std::vector<DType> inputs) { return compile({&tree, 1}, inputs); }

TEST(Expr, IntegersWrapWithoutLosingLowBits) {
  EXPECT_EQ(value(Func::kMul, DType::kI32, 2147483647, 2147483647), 1);
  EXPECT_EQ(value(Func::kAdd, DType::kI32, 2147483647, 1), -2147483648.0);
  EXPECT_EQ(value(Func::kSub, DType::kU32, 0, 1), 4294967295.0);
  EXPECT_EQ(value(Func::kAdd, DType::kI8, 127, 1), -128);
}

TEST(Expr, IntegerDivisionByZeroIsZero) {
  for (Func func : {Func::kDiv, Func::kFloorDiv, Func::kRemainder, Func::kFmod})
    EXPECT_EQ(value(func, DType::kI32, 7, 0), 0);
  EXPECT_EQ(value(Func::kDiv, DType::kI32, -2147483648.0, -1), -2147483648.0);  // wraps, no trap
}

TEST(Expr, RemaindersFollowTheirSigns) {
  EXPECT_EQ(value(Func::kRemainder, DType::kI32, -7, 3), 2);
  EXPECT_EQ(value(Func::kFmod, DType::kI32, -7, 3), -1);
  EXPECT_EQ(value(Func::kFloorDiv, DType::kI32, -7, 2), -4);
  EXPECT_EQ(value(Func::kDiv, DType::kI32, -7, 2), -3);
  EXPECT_EQ(value(Func::kRemainder, DType::kF32, -7.5, 2), 0.5);
  EXPECT_EQ(value(Func::kFloorDiv, DType::kF32, -5, kInfinity), -1);
}

TEST(Expr, NanWinsInMinimumAndMaximum) {
  EXPECT_TRUE(std::isnan(value(Func::kMax, DType::kF32, kNan, 1)));
  EXPECT_TRUE(std::isnan(value(Func::kMin, DType::kF32, 1, kNan)));
  EXPECT_EQ(value(Func::kSign, DType::kF32, kNan), 0);
}

TEST(Expr, CastsSaturateToWordsAndWrapToNarrowerWidths) {
  EXPECT_EQ(value_of_cast(DType::kF32, DType::kI32, 3e9), 2147483647.0);
  EXPECT_EQ(value_of_cast(DType::kF32, DType::kI32, -1.9), -1);
  EXPECT_EQ(value_of_cast(DType::kF32, DType::kI32, kNan), 0);
  EXPECT_EQ(value_of_cast(DType::kF32, DType::kU8, 257), 1);
  EXPECT_EQ(value_of_cast(DType::kI32, DType::kI8, 200), -56);
  EXPECT_EQ(value_of_cast(DType::kF32, DType::kBool, 0.25), 1);
}

TEST(Expr, EqualSubtreesAreComputedOnce) {
  const Expr x = Expr::input(0, DType::kF32);
  const Expr tree = (x + 1.0) * (Expr::input(0, DType::kF32) + 1.0);  // built twice, shared by content
  EXPECT_EQ(codes(compiled(tree, {DType::kF32})),
            (std::vector<OpCode>{OpCode::kLoad, OpCode::kConstF, OpCode::kAddF, OpCode::kMulF}));
}

TEST(Expr, ConstantsDifferByTheirSign) {
  const Expr tree = Expr::constant(DType::kF32, 0.0) / Expr::constant(DType::kF32, -0.0);
  EXPECT_EQ(compiled(tree, {}).code.size(), 3u);
}

TEST(Expr, HalfIsRoundedAtTheRootOnly) {
  const Expr x = Expr::input(0, DType::kF16);
  EXPECT_EQ(
      codes(compiled(x * x + 1.0, {DType::kF16})),
      (std::vector<OpCode>{OpCode::kLoad, OpCode::kMulF, OpCode::kConstF, OpCode::kAddF, OpCode::kRoundF16}));
  EXPECT_EQ(codes(compiled(cast(x, DType::kF32), {DType::kF16})), (std::vector<OpCode>{OpCode::kLoad}));
  EXPECT_EQ(codes(compiled(x, {DType::kF16})), (std::vector<OpCode>{OpCode::kLoad}));
}

TEST(Expr, NarrowIntegersWrapAfterArithmetic) {
  const Expr x = Expr::input(0, DType::kI8);
  EXPECT_EQ(codes(compiled(x + x, {DType::kI8})),
            (std::vector<OpCode>{OpCode::kLoad, OpCode::kAddI, OpCode::kNarrowI8}));
  EXPECT_EQ(codes(compiled(binary(Func::kMax, x, x), {DType::kI8})),
            (std::vector<OpCode>{OpCode::kLoad, OpCode::kMaxI}));
}

TEST(Expr, UnsignedWordsHaveTheirOwnComparisons) {
  const Expr x = Expr::input(0, DType::kU32), y = Expr::input(1, DType::kU32);
  EXPECT_EQ(codes(compiled(x < y, {DType::kU32, DType::kU32})).back(), OpCode::kLtU);
}

TEST(Expr, SeveralRootsShareTheirCode) {
  const Expr x = Expr::input(0, DType::kF32);
  const Expr e = unary(Func::kExp, x);
  const std::vector<Expr> roots{e, e + 1.0};
  const PointwiseProgram program = compile(roots, std::vector<DType>{DType::kF32});
  EXPECT_EQ(program.outputs, (std::vector<int32_t>{1, 3}));
}

TEST(Expr, DoubleDoesNotRunOnTheDevice) {
  const Expr x = Expr::input(0, DType::kF64);
  try {
    compiled(x + x, {DType::kF64});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "unsupported dtype [IPU-E201]: elementwise arithmetic on f64 does not run on the device.");
  }
}

TEST(Expr, MixedDtypesAreABugOfTheDefinition) {
  EXPECT_THROW(Expr::input(0, DType::kF32) + Expr::input(1, DType::kI32), Error);
}

}  // namespace
}  // namespace ipu::ops
