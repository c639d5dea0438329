// Circular functions and their inverses; angles in radians.
#include "ops/definition/family.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

constexpr const char* kFamily = "transcendental";

const OpRegistration sin = unary_op("sin", kFamily, "The sine.", Func::kSin, kAnyFloat)
                               .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                 return g.mul(dy, g.op("cos", {g.operand(0)}));
                               }))
                               .from_aten({"sin"})
                               .from_onnx("Sin", {7})
                               .from_tensorflow({"Sin"})
                               .samples(unary_samples());

const OpRegistration cos = unary_op("cos", kFamily, "The cosine.", Func::kCos, kAnyFloat)
                               .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                 return g.neg(g.mul(dy, g.op("sin", {g.operand(0)})));
                               }))
                               .from_aten({"cos"})
                               .from_onnx("Cos", {7})
                               .from_tensorflow({"Cos"})
                               .samples(unary_samples());

const OpRegistration tan = unary_op("tan", kFamily, "The tangent.", Func::kTan, kAnyFloat)
                               .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                 ir::Value* y = g.result();
                                 return g.mul(dy, g.add_scalar(g.mul(y, y), 1.0));
                               }))
                               .from_aten({"tan"})
                               .from_onnx("Tan", {7})
                               .from_tensorflow({"Tan"})
                               .samples(unary_samples(-1.2, 1.2));

// 1 / sqrt(1 - x^2), what asin and acos share.
ir::Value* slope_of_arcs(GradientBuilder& g) {
  ir::Value* x = g.operand(0);
  return g.op("rsqrt", {g.add_scalar(g.neg(g.mul(x, x)), 1.0)});
}

const OpRegistration asin =
    unary_op("asin", kFamily, "The inverse sine; NaN outside [-1, 1].", Func::kAsin, kAnyFloat)
        .gradient(
            unary_gradient([](GradientBuilder& g, ir::Value* dy) { return g.mul(dy, slope_of_arcs(g)); }))
        .from_aten({"asin"})
        .from_onnx("Asin", {7})
        .from_tensorflow({"Asin"})
        .samples(unary_samples(-0.9, 0.9));

const OpRegistration acos =
    unary_op("acos", kFamily, "The inverse cosine; NaN outside [-1, 1].", Func::kAcos, kAnyFloat)
        .gradient(unary_gradient(
            [](GradientBuilder& g, ir::Value* dy) { return g.neg(g.mul(dy, slope_of_arcs(g))); }))
        .from_aten({"acos"})
        .from_onnx("Acos", {7})
        .from_tensorflow({"Acos"})
        .samples(unary_samples(-0.9, 0.9));

const OpRegistration atan = unary_op("atan", kFamily, "The inverse tangent.", Func::kAtan, kAnyFloat)
                                .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                  ir::Value* x = g.operand(0);
                                  return g.div(dy, g.add_scalar(g.mul(x, x), 1.0));
                                }))
                                .from_aten({"atan"})
                                .from_onnx("Atan", {7})
                                .from_tensorflow({"Atan"})
                                .samples(unary_samples());

const OpRegistration atan2 = define_op("atan2", kFamily)
                                 .doc("The angle of the points (x, y) of [y, x], in (-pi, pi]; broadcast.")
                                 .operand("y", kAnyFloat)
                                 .operand("x", kAnyFloat)
                                 .result("out")
                                 .elementwise([](std::span<const Expr> in, const Attributes&) {
                                   return binary(Func::kAtan2, in[0], in[1]);
                                 })
                                 .gradient([](GradientBuilder& g) {
                                   ir::Value *y = g.operand(0), *x = g.operand(1);
                                   // Of the origin the gradient is 0, as in torch.
                                   ir::Value* square = g.add(g.mul(y, y), g.mul(x, x));
                                   ir::Value* is_zero = g.op("equal", {square, g.scalar_like(square, 0.0)});
                                   square = g.where(is_zero, g.scalar_like(square, 1.0), square);
                                   ir::Value* scaled = g.div(g.upstream(), square);
                                   if (g.needs(0)) g.set_reduced(0, g.mul(scaled, x));
                                   if (g.needs(1)) g.set_reduced(1, g.neg(g.mul(scaled, y)));
                                 })
                                 .from_aten({"atan2"}, import_binary("atan2"))
                                 .from_graphcore("Atan2")
                                 .from_tensorflow({"Atan2"})
                                 .samples(binary_samples());

const PopartOperators trigonometric_popart = {{
    {"Acos Tan", "7", "X:F", "Y:F", "yes", "", "rewritten"},
    {"Asin Atan Cos Sin", "7", "X:F", "Y:F"},
}};

}  // namespace
}  // namespace ipu::ops
