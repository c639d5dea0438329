// Comparisons: operands are converted to their common dtype by the importer, the result is bool.
#include "ops/definition/family.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

OpDefBuilder comparison(std::string name, std::string doc, Func func, const std::string& aten,
                        uint32_t traits = 0) {
  OpDefBuilder builder(name, "comparison");
  builder.doc(std::move(doc))
      .operand("a", kNumber | kBoolean)
      .operand("b", kNumber | kBoolean)
      .result("y")
      .traits(traits)
      .elementwise([func](std::span<const Expr> in, const Attributes&) { return binary(func, in[0], in[1]); })
      .gradient_zero()
      .from_aten({aten + ".Tensor", aten + ".Scalar"},
                 [name](AtenImportCall& c) {
                   const DType dtype = c.promoted({"self", "other"});
                   c.set_result(0, c.op(name, {c.operand("self", dtype), c.operand("other", dtype)}));
                 })
      .samples({{{f32({2, 3}), f32({3})}, {}, -1, 1, {}},
                {{f16({9}), f16({9})}, {}, -1, 1, {}},
                {{i32({24}), i32({24})}, {}, -3, 3, {}},
                {{boolean({9}), boolean({9})}, {}, 0, 1, {}}});
  return builder;
}

const OpRegistration eq =
    comparison("equal", "a = b; false if one is NaN.", Func::kEq, "eq", kCommutative).from_onnx("Equal", {7});
const OpRegistration ne =
    comparison("not_equal", "a differs from b; true if one is NaN.", Func::kNe, "ne", kCommutative);
const OpRegistration lt =
    comparison("less", "a < b.", Func::kLt, "lt").from_onnx("Less", {7}).from_tensorflow({"Less"});
const OpRegistration le = comparison("less_equal", "a <= b.", Func::kLe, "le")
                              .from_onnx("LessOrEqual", {12})
                              .from_tensorflow({"LessEqual"});
const OpRegistration gt =
    comparison("greater", "a > b.", Func::kGt, "gt").from_onnx("Greater", {7}).from_tensorflow({"Greater"});
const OpRegistration ge = comparison("greater_equal", "a >= b.", Func::kGe, "ge")
                              .from_onnx("GreaterOrEqual", {12})
                              .from_tensorflow({"GreaterEqual"});

const OpRegistration is_nan =
    define_op("is_nan", "comparison")
        .doc("Whether x is not a number; false for integers.")
        .operand("x", kNumber | kBoolean)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          return is_floating_point(in[0].dtype()) ? unary(Func::kIsNan, in[0])
                                                  : Expr::constant(DType::kBool, 0.0);
        })
        .gradient_zero()
        .from_aten({"isnan"}, [](AtenImportCall& c) { c.set_result(0, c.op("is_nan", {c.tensor("self")})); })
        .from_onnx("IsNaN", {9})
        .from_tensorflow({"IsNan"})
        .samples({{{f32({2, 3})}, {}, -1, 1, {}}, {{f16({5})}, {}, -1, 1, {}}, {{i32({5})}, {}, -1, 1, {}}});

const PopartOperators compare_popart = {{
    {"IsNaN", "9", "X:F", "Y:BOOL", "none"},
    {"Equal", "1 7 11", "A:NB B:NB", "C:BOOL", "error", "axis broadcast"},
    {"Greater", "1 7 9", "A:N B:N", "C:BOOL", "error", "axis broadcast"},
    {"Less", "7 9", "A:N B:N", "C:BOOL", "error"},
}};

}  // namespace
}  // namespace ipu::ops
