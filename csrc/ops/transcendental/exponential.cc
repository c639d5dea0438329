// Exponentials, logarithms and roots.
#include <numbers>

#include "ops/definition/family.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

constexpr const char* kFamily = "transcendental";

const OpRegistration exp =
    unary_op("exp", kFamily, "e to the power of x.", Func::kExp, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) { return g.mul(dy, g.result()); }))
        .from_aten({"exp"})
        .from_onnx("Exp", {6})
        .from_tensorflow({"Exp"})
        .samples(unary_samples());

const OpRegistration expm1 = unary_op("expm1", kFamily, "exp(x) - 1, exact near 0.", Func::kExpm1, kAnyFloat)
                                 .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                   return g.mul(dy, g.add_scalar(g.result(), 1.0));
                                 }))
                                 .from_aten({"expm1"})
                                 .from_graphcore("Expm1")
                                 .from_tensorflow({"Expm1"})
                                 .samples(unary_samples());

const OpRegistration log =
    unary_op("log", kFamily, "The natural logarithm.", Func::kLog, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) { return g.div(dy, g.operand(0)); }))
        .from_aten({"log"})
        .from_onnx("Log", {6})
        .from_tensorflow({"Log"})
        .samples(unary_samples(0.1, 4.0));

const OpRegistration log1p = unary_op("log1p", kFamily, "log(1 + x), exact near 0.", Func::kLog1p, kAnyFloat)
                                 .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                   return g.div(dy, g.add_scalar(g.operand(0), 1.0));
                                 }))
                                 .from_aten({"log1p"})
                                 .from_graphcore("Log1p")
                                 .from_tensorflow({"Log1p"})
                                 .samples(unary_samples(-0.9, 4.0));

const OpRegistration log2 = unary_op("log2", kFamily, "The logarithm to base 2.", Func::kLog2, kAnyFloat)
                                .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                  return g.div(dy, g.scale(g.operand(0), std::numbers::ln2));
                                }))
                                .from_aten({"log2"})
                                .samples(unary_samples(0.1, 4.0));

const OpRegistration log10 = unary_op("log10", kFamily, "The logarithm to base 10.", Func::kLog10, kAnyFloat)
                                 .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                   return g.div(dy, g.scale(g.operand(0), std::numbers::ln10));
                                 }))
                                 .from_aten({"log10"})
                                 .samples(unary_samples(0.1, 4.0));

const OpRegistration sqrt = unary_op("sqrt", kFamily, "The square root; NaN below 0.", Func::kSqrt, kAnyFloat)
                                .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                  return g.div(dy, g.scale(g.result(), 2.0));
                                }))
                                .from_aten({"sqrt"})
                                .from_onnx("Sqrt", {6})
                                .from_tensorflow({"Sqrt"})
                                .samples(unary_samples(0.1, 4.0));

const OpRegistration rsqrt = unary_op("rsqrt", kFamily, "1 / sqrt(x).", Func::kRsqrt, kAnyFloat)
                                 .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                   ir::Value* y = g.result();
                                   return g.mul(g.scale(dy, -0.5), g.mul(y, g.mul(y, y)));
                                 }))
                                 .from_aten({"rsqrt"})
                                 .from_tensorflow({"Rsqrt"})
                                 .samples(unary_samples(0.1, 4.0));

const OpRegistration reciprocal = unary_op("reciprocal", kFamily, "1 / x.", Func::kReciprocal, kAnyFloat)
                                      .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
                                        ir::Value* y = g.result();
                                        return g.neg(g.mul(dy, g.mul(y, y)));
                                      }))
                                      .from_aten({"reciprocal"})
                                      .from_onnx("Reciprocal", {6})
                                      .from_tensorflow({"Reciprocal", "Inv"})
                                      .samples(unary_samples(0.25, 4.0));

const PopartOperators exponential_popart = {{
    {"Exp Log Reciprocal Sqrt", "6", "X:F", "Y:F"},
}};

}  // namespace
}  // namespace ipu::ops
