// Hyperbolic functions, their inverses, the error function and the logistic function.
// tanh and sigmoid have gradients as ops of their own: they read the result only, and training is full of
// them.
#include <numbers>

#include "ops/definition/family.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

constexpr const char* kFamily = "transcendental";

const OpRegistration sinh = unary_op("sinh", kFamily, "The hyperbolic sine.", Func::kSinh, kAnyFloat)
                                .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                  return g.mul(dy, g.op("cosh", {g.operand(0)}));
                                }))
                                .from_aten({"sinh"})
                                .from_onnx("Sinh", {9})
                                .from_tensorflow({"Sinh"})
                                .samples(unary_samples());

const OpRegistration cosh = unary_op("cosh", kFamily, "The hyperbolic cosine.", Func::kCosh, kAnyFloat)
                                .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                  return g.mul(dy, g.op("sinh", {g.operand(0)}));
                                }))
                                .from_aten({"cosh"})
                                .from_onnx("Cosh", {9})
                                .from_tensorflow({"Cosh"})
                                .samples(unary_samples());

const OpRegistration asinh =
    unary_op("asinh", kFamily, "The inverse hyperbolic sine.", Func::kAsinh, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
          ir::Value* x = g.operand(0);
          return g.mul(dy, g.op("rsqrt", {g.add_scalar(g.mul(x, x), 1.0)}));
        }))
        .from_aten({"asinh"})
        .from_onnx("Asinh", {9})
        .from_tensorflow({"Asinh"})
        .samples(unary_samples());

const OpRegistration acosh =
    unary_op("acosh", kFamily, "The inverse hyperbolic cosine; NaN below 1.", Func::kAcosh, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
          ir::Value* x = g.operand(0);
          return g.mul(dy, g.op("rsqrt", {g.add_scalar(g.mul(x, x), -1.0)}));
        }))
        .from_aten({"acosh"})
        .from_onnx("Acosh", {9})
        .from_tensorflow({"Acosh"})
        .samples(unary_samples(1.1, 4.0));

const OpRegistration atanh =
    unary_op("atanh", kFamily, "The inverse hyperbolic tangent; NaN outside [-1, 1].", Func::kAtanh,
             kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
          ir::Value* x = g.operand(0);
          return g.div(dy, g.add_scalar(g.neg(g.mul(x, x)), 1.0));
        }))
        .from_aten({"atanh"})
        .from_onnx("Atanh", {9})
        .from_tensorflow({"Atanh"})
        .samples(unary_samples(-0.9, 0.9));

// 2 / sqrt(pi) * exp(-x^2)
ir::Value* slope_of_erf(GradientBuilder& g) {
  ir::Value* x = g.operand(0);
  return g.scale(g.op("exp", {g.neg(g.mul(x, x))}), 2.0 * std::numbers::inv_sqrtpi);
}

const OpRegistration erf = unary_op("erf", kFamily, "The error function.", Func::kErf, kAnyFloat)
                               .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                 return g.mul(dy, slope_of_erf(g));
                               }))
                               .from_aten({"erf"})
                               .from_onnx("Erf", {9})
                               .from_tensorflow({"Erf"})
                               .samples(unary_samples());

const OpRegistration erfc =
    unary_op("erfc", kFamily, "1 - erf(x), exact for large x.", Func::kErfc, kAnyFloat)
        .gradient(unary_gradient(
            [](GradientBuilder& g, ir::Value* dy) { return g.neg(g.mul(dy, slope_of_erf(g))); }))
        .from_aten({"erfc"})
        .from_tensorflow({"Erfc"})
        .samples(unary_samples());

const OpRegistration tanh = unary_op("tanh", kFamily, "The hyperbolic tangent.", Func::kTanh, kAnyFloat)
                                .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                  return g.op("tanh_gradient", {g.result(), dy});
                                }))
                                .from_aten({"tanh"})
                                .from_onnx("Tanh", {6})
                                .from_tensorflow({"Tanh"})
                                .samples(unary_samples());

const OpRegistration sigmoid = unary_op("sigmoid", kFamily, "1 / (1 + exp(-x)).", Func::kSigmoid, kAnyFloat)
                                   .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                     return g.op("sigmoid_gradient", {g.result(), dy});
                                   }))
                                   .from_aten({"sigmoid"})
                                   .from_onnx("Sigmoid", {6})
                                   .from_tensorflow({"Sigmoid"})
                                   .samples(unary_samples());

const OpRegistration tanh_gradient =
    activation_gradient_op("tanh_gradient", "y", "dy * (1 - y^2).", [](Expr y, Expr dy, const Attributes&) {
      return dy * (1.0 - y * y);
    }).gradient([](GradientBuilder& g) {
      ir::Value *y = g.operand(0), *dy = g.operand(1), *up = g.upstream();
      if (g.needs(0)) g.set(0, g.scale(g.mul(up, g.mul(dy, y)), -2.0));
      if (g.needs(1)) g.set(1, g.op("tanh_gradient", {y, up}));
    });

const OpRegistration sigmoid_gradient =
    activation_gradient_op("sigmoid_gradient", "y", "dy * y * (1 - y).",
                           [](Expr y, Expr dy, const Attributes&) { return dy * (1.0 - y) * y; })
        .gradient([](GradientBuilder& g) {
          ir::Value *y = g.operand(0), *dy = g.operand(1), *up = g.upstream();
          if (g.needs(0)) g.set(0, g.mul(up, g.mul(dy, g.add_scalar(g.scale(y, -2.0), 1.0))));
          if (g.needs(1)) g.set(1, g.op("sigmoid_gradient", {y, up}));
        });

const PopartOperators hyperbolic_popart = {{
    {"Acosh Asinh Atanh", "9", "X:F", "Y:F", "yes", "", "rewritten"},
    {"Cosh Erf Sinh", "9", "X:F", "Y:F"},
    {"Sigmoid Tanh", "6", "X:F", "Y:F"},
}};

}  // namespace
}  // namespace ipu::ops
