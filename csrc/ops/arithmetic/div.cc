// Quotients and remainders. True division of integers is division of their f32 values (the importer casts);
// `div` on integers truncates, `floor_divide` and `remainder` follow the sign of the divisor, `fmod` that of
// the dividend. Integer division by zero gives 0.
#include <fmt/core.h>

#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

void import_with_rounding(AtenImportCall& c) {
  const DType dtype = c.result_type(0).dtype;
  ir::Value* a = c.operand("self", dtype);
  ir::Value* b = c.operand("other", dtype);
  const std::string mode = c.has("rounding_mode") ? c.text("rounding_mode") : "";
  if (mode == "floor") {
    c.set_result(0, c.op("floor_divide", {a, b}));
    return;
  }
  if (!mode.empty() && mode != "trunc")
    c.unsupported(fmt::format("rounding_mode '{}' is not floor, trunc or None", mode));
  ir::Value* quotient = c.op("div", {a, b});
  c.set_result(0, mode == "trunc" && is_floating_point(dtype) ? c.op("trunc", {quotient}) : quotient);
}

const OpRegistration div =
    define_op("div", "arithmetic")
        .doc("a / b; integers truncate towards zero, and give 0 for b = 0.")
        .operand("a", kNumber)
        .operand("b", kNumber)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) { return in[0] / in[1]; })
        .gradient([](GradientBuilder& g) {
          ir::Value* dx = g.div(g.upstream(), g.operand(1));
          if (g.needs(0)) g.set_reduced(0, dx);
          if (g.needs(1)) g.set_reduced(1, g.neg(g.mul(dx, g.result())));
        })
        .from_aten({"div.Tensor", "div.Scalar", "true_divide.Tensor", "true_divide.Scalar"},
                   import_binary("div"))
        .from_onnx("Div", {7})
        .from_aten({"div.Tensor_mode", "div.Scalar_mode"}, import_with_rounding)
        .from_tensorflow({"Div", "RealDiv", "TruncateDiv"})
        .samples(binary_samples(0.5, 3.0))
        .samples(integer_samples(true));

const OpRegistration floor_divide =
    define_op("floor_divide", "arithmetic")
        .doc("The largest whole number not above a / b.")
        .operand("a", kNumber)
        .operand("b", kNumber)
        .result("y")
        .elementwise(
            [](std::span<const Expr> in, const Attributes&) { return binary(Func::kFloorDiv, in[0], in[1]); })
        .gradient_zero()
        .from_aten({"floor_divide", "floor_divide.Scalar"}, import_binary("floor_divide"))
        .samples(binary_samples(0.5, 9.0))
        .samples(integer_samples(true))
        .samples({{{f32({16}), f32({16})}, {}, -9.0, -0.5, {}}});

const OpRegistration remainder =
    define_op("remainder", "arithmetic")
        .doc("a - b * floor(a / b): has the sign of b.")
        .operand("a", kNumber)
        .operand("b", kNumber)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          return binary(Func::kRemainder, in[0], in[1]);
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set_reduced(0, g.upstream());
          if (g.needs(1))
            g.set_reduced(1, g.neg(g.mul(g.upstream(), g.op("floor_divide", {g.operand(0), g.operand(1)}))));
        })
        .from_aten({"remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"},
                   import_binary("remainder"))
        .from_tensorflow({"FloorMod"})
        .samples(binary_samples(0.5, 9.0))
        .samples(integer_samples(true))
        .samples({{{f32({16}), f32({16})}, {}, -9.0, 9.0, {{1, {0.5, 3.0}}}}});

const OpRegistration fmod =
    define_op("fmod", "arithmetic")
        .doc("a - b * trunc(a / b): has the sign of a.")
        .operand("a", kNumber)
        .operand("b", kNumber)
        .result("y")
        .elementwise(
            [](std::span<const Expr> in, const Attributes&) { return binary(Func::kFmod, in[0], in[1]); })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set_reduced(0, g.upstream());
          if (g.needs(1))
            g.set_reduced(1, g.neg(g.mul(g.upstream(), g.op("trunc", {g.div(g.operand(0), g.operand(1))}))));
        })
        .from_aten({"fmod.Tensor", "fmod.Scalar"}, import_binary("fmod"))
        .from_tensorflow({"Mod", "TruncateMod"})
        .samples(binary_samples(0.5, 9.0))
        .samples(integer_samples(true))
        .samples({{{f32({16}), f32({16})}, {}, -9.0, 9.0, {{1, {0.5, 3.0}}}}});

}  // namespace
}  // namespace ipu::ops
