// Rectifiers: relu, leaky_relu, threshold, hardtanh (relu6), prelu. At a corner the gradient is torch's:
// relu'(0) = 0, hardtanh' is 0 at its bounds (unlike clamp).
#include "ops/definition/family.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

Expr zero_like(const Expr& e) { return Expr::constant(e.dtype(), 0.0); }

const OpRegistration relu = define_op("relu", "activation")
                                .doc("max(x, 0).")
                                .operand("x", kNumber)
                                .result("y")
                                .elementwise([](std::span<const Expr> in, const Attributes&) {
                                  return binary(Func::kMax, in[0], zero_like(in[0]));
                                })
                                .gradient([](GradientBuilder& g) {
                                  g.set(0, g.op("relu_gradient", {g.result(), g.upstream()}));
                                })
                                .work(one_pass({"Relu"}))
                                .from_aten({"relu"})
                                .from_onnx("Relu", {6})
                                .from_tensorflow({"Relu"})
                                .samples(unary_samples())
                                .samples({{{i32({9})}, {}, -9, 9, {}}});

const OpRegistration relu_gradient =
    activation_gradient_op(
        "relu_gradient", "y", "dy where y > 0, 0 elsewhere.",
        [](Expr y, Expr dy, const Attributes&) { return select(y <= 0.0, zero_like(dy), dy); })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.zeros(g.operand_type(0)));
          if (g.needs(1)) g.set(1, g.op("relu_gradient", {g.operand(0), g.upstream()}));
        })
        .work(one_pass({"Relu"}));

const OpRegistration leaky_relu =
    define_op("leaky_relu", "activation")
        .doc("x where x > 0, slope * x elsewhere.")
        .operand("x", kAnyFloat)
        .attribute("slope", 0.01)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          return select(in[0] > 0.0, in[0], in[0] * a.real("slope"));
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("leaky_relu_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .from_aten({"leaky_relu"}, {{"slope", "negative_slope"}})
        .from_onnx("LeakyRelu", {6}, {{"slope", "alpha"}})
        .samples(unary_samples())
        .samples(unary_samples(-3, 3, {{"slope", 0.25}}));

const OpRegistration leaky_relu_gradient =
    activation_gradient_op(
        "leaky_relu_gradient", "x", "dy where x > 0, slope * dy elsewhere.",
        [](Expr x, Expr dy, const Attributes& a) { return select(x > 0.0, dy, dy * a.real("slope")); })
        .attribute("slope", 0.01);

const OpRegistration threshold =
    define_op("threshold", "activation")
        .doc("x where x > threshold, value elsewhere.")
        .operand("x", kNumber)
        .attribute("threshold", 0.0)
        .attribute("value", 0.0)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const Expr x = in[0];
          return select(x <= a.real("threshold"), Expr::constant(x.dtype(), a.real("value")), x);
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("threshold_gradient", {g.operand(0), g.upstream()},
                        {{"threshold", g.attributes().real("threshold")}}));
        })
        .from_aten({"threshold"})
        .samples(unary_samples(-3, 3, {{"threshold", 0.5}, {"value", -2.0}}));

const OpRegistration threshold_gradient =
    activation_gradient_op("threshold_gradient", "x", "dy where x > threshold, 0 elsewhere.",
                           [](Expr x, Expr dy, const Attributes& a) {
                             return select(x <= a.real("threshold"), zero_like(dy), dy);
                           })
        .attribute("threshold", 0.0);

const OpRegistration hardtanh =
    define_op("hardtanh", "activation")
        .doc("x limited to [min, max]; its gradient is 0 at the bounds. relu6 is hardtanh from 0 to 6.")
        .operand("x", kNumber)
        .attribute("min", -1.0)
        .attribute("max", 1.0)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const DType dtype = in[0].dtype();
          const Expr raised = binary(Func::kMax, in[0], Expr::constant(dtype, a.real("min")));
          return binary(Func::kMin, raised, Expr::constant(dtype, a.real("max")));
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("hardtanh_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .from_aten({"hardtanh"}, {{"min", "min_val"}, {"max", "max_val"}})
        .from_aten({"relu6"},
                   [](AtenImportCall& c) {
                     c.set_result(0, c.op("hardtanh", {c.tensor("self")}, {{"min", 0.0}, {"max", 6.0}}));
                   })
        .samples(unary_samples())
        .samples(unary_samples(-3, 9, {{"min", 0.0}, {"max", 6.0}}));

const OpRegistration hardtanh_gradient =
    activation_gradient_op("hardtanh_gradient", "x", "dy where min < x < max, 0 elsewhere.",
                           [](Expr x, Expr dy, const Attributes& a) {
                             const Expr inside = binary(Func::kAnd, x > a.real("min"), x < a.real("max"));
                             return select(inside, dy, zero_like(dy));
                           })
        .attribute("min", -1.0)
        .attribute("max", 1.0);

const OpRegistration prelu =
    define_op("prelu", "activation")
        .doc("x where x > 0, weight * x elsewhere; weight broadcasts.")
        .operand("x", kAnyFloat)
        .operand("weight", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          return select(in[0] > 0.0, in[0], in[1] * in[0]);
        })
        .gradient([](GradientBuilder& g) {
          ir::Value *x = g.operand(0), *dy = g.upstream();
          ir::Value* positive = g.op("greater", {x, g.scalar_like(x, 0.0)});
          if (g.needs(0)) g.set_reduced(0, g.where(positive, dy, g.mul(dy, g.operand(1))));
          if (g.needs(1)) g.set_reduced(1, g.where(positive, g.scalar_like(x, 0.0), g.mul(dy, x)));
        })
        .from_aten({"_prelu_kernel"},
                   [](AtenImportCall& c) {
                     const DType dtype = c.result_type(0).dtype;
                     c.set_result(0, c.op("prelu", {c.operand("self", dtype), c.operand("weight", dtype)}));
                   })
        .from_onnx("PRelu", {7})
        .samples({{{f32({2, 3}), f32({1, 3})}, {}, -3, 3, {}}, {{f16({2, 3}), f16({})}, {}, -3, 3, {}}});

const PopartOperators relu_popart = {{
    {"LeakyRelu", "1 6", "X:F", "Y:F", "yes", "alpha"},
    {"Relu", "6", "X:F", "Y:F"},
    {"PRelu", "9", "X:N slope:N", "Y:N"},
}};

}  // namespace
}  // namespace ipu::ops
