// Exponential activations: elu (celu and selu are elu with other factors), softplus, log_sigmoid; and
// hardsigmoid.
#include "ops/definition/family.h"
#include "ops/definition/node_import_call.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

Expr zero_like(const Expr& e) { return Expr::constant(e.dtype(), 0.0); }

const OpRegistration elu =
    define_op("elu", "activation")
        .doc("scale * x where x > 0, scale * alpha * (exp(input_scale * x) - 1) elsewhere.")
        .operand("x", kAnyFloat)
        .attribute("alpha", 1.0)
        .attribute("scale", 1.0)
        .attribute("input_scale", 1.0)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const Expr x = in[0];
          const Expr below =
              unary(Func::kExpm1, x * a.real("input_scale")) * (a.real("alpha") * a.real("scale"));
          return select(x <= 0.0, below, x * a.real("scale"));
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("elu_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .from_aten({"elu"})
        .from_onnx("Elu", {6},
                   [](NodeImportCall& c) {
                     c.set_result(0, c.op("elu", {c.operand(0)}, {{"alpha", c.real("alpha", 1.0)}}));
                   })
        .from_aten({"celu"},
                   [](AtenImportCall& c) {
                     const double alpha = c.has("alpha") ? c.real("alpha") : 1.0;
                     if (alpha == 0.0) c.unsupported("alpha must not be 0");
                     c.set_result(0, c.op("elu", {c.tensor("self")},
                                          {{"alpha", alpha}, {"input_scale", 1.0 / alpha}}));
                   })
        .from_aten({"selu"},
                   [](AtenImportCall& c) {
                     c.set_result(0, c.op("elu", {c.tensor("self")},
                                          {{"alpha", 1.6732632423543772848170429916717},
                                           {"scale", 1.0507009873554804934193349852946}}));
                   })
        .samples(unary_samples())
        .samples(unary_samples(-3, 3, {{"alpha", 0.5}, {"scale", 1.25}, {"input_scale", 2.0}}));

const OpRegistration elu_gradient =
    activation_gradient_op("elu_gradient", "x", "dy times the slope of elu at x.",
                           [](Expr x, Expr dy, const Attributes& a) {
                             const double factor = a.real("input_scale") * a.real("alpha") * a.real("scale");
                             const Expr below = dy * (unary(Func::kExp, x * a.real("input_scale")) * factor);
                             return select(x <= 0.0, below, dy * a.real("scale"));
                           })
        .attribute("alpha", 1.0)
        .attribute("scale", 1.0)
        .attribute("input_scale", 1.0);

const OpRegistration softplus =
    define_op("softplus", "activation")
        .doc("log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold.")
        .operand("x", kAnyFloat)
        .attribute("beta", 1.0)
        .attribute("threshold", 20.0)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const Expr x = in[0], scaled = x * a.real("beta");
          const Expr soft = unary(Func::kLog1p, unary(Func::kExp, scaled)) / a.real("beta");
          return select(scaled > a.real("threshold"), x, soft);
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("softplus_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .from_aten({"softplus"})
        .from_onnx("Softplus", {6},
                   [](NodeImportCall& c) { c.set_result(0, c.op("softplus", {c.operand(0)})); })
        .samples(unary_samples())
        .samples(unary_samples(-3, 3, {{"beta", 2.0}, {"threshold", 3.0}}));

const OpRegistration softplus_gradient =
    activation_gradient_op("softplus_gradient", "x", "dy * sigmoid(beta * x); dy where beta * x > threshold.",
                           [](Expr x, Expr dy, const Attributes& a) {
                             const Expr scaled = x * a.real("beta");
                             return select(scaled > a.real("threshold"), dy,
                                           dy * unary(Func::kSigmoid, scaled));
                           })
        .attribute("beta", 1.0)
        .attribute("threshold", 20.0);

const OpRegistration log_sigmoid =
    define_op("log_sigmoid", "activation")
        .doc("log(sigmoid(x)), without overflow.")
        .operand("x", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const Expr tail = unary(Func::kLog1p, unary(Func::kExp, -unary(Func::kAbs, in[0])));
          return binary(Func::kMin, in[0], zero_like(in[0])) - tail;
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("log_sigmoid_gradient", {g.operand(0), g.upstream()}));
        })
        .from_aten({"log_sigmoid"})
        .from_aten({"log_sigmoid_forward"},
                   [](AtenImportCall& c) {
                     c.set_result(0, c.op("log_sigmoid", {c.tensor("self")}));
                     // The buffer torch keeps for its own backward; nothing of ours reads it.
                     if (c.result_count() > 1) c.set_result(1, c.builder().splat(c.result_type(1), 0.0));
                   })
        .samples(unary_samples());

const OpRegistration log_sigmoid_gradient =
    activation_gradient_op("log_sigmoid_gradient", "x", "dy * sigmoid(-x).",
                           [](Expr x, Expr dy, const Attributes&) { return dy * unary(Func::kSigmoid, -x); });

const OpRegistration hardsigmoid =
    define_op("hardsigmoid", "activation")
        .doc("clamp(x + 3, 0, 6) / 6.")
        .operand("x", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const Expr raised = binary(Func::kMax, in[0] + 3.0, zero_like(in[0]));
          return binary(Func::kMin, raised, Expr::constant(in[0].dtype(), 6.0)) / 6.0;
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("hardsigmoid_gradient", {g.operand(0), g.upstream()}));
        })
        .from_aten({"hardsigmoid"})
        .samples(unary_samples(-5, 5));

const OpRegistration hardsigmoid_gradient =
    activation_gradient_op("hardsigmoid_gradient", "x", "dy / 6 where -3 < x < 3, 0 elsewhere.",
                           [](Expr x, Expr dy, const Attributes&) {
                             return select(binary(Func::kAnd, x > -3.0, x < 3.0), dy * (1.0 / 6.0),
                                           zero_like(dy));
                           })
        .samples({{{f32({16}), f32({16})}, {}, -5, 5, {}}});

const PopartOperators elu_popart = {{
    {"Elu", "1 6", "X:N", "Y:N", "yes", "alpha"},
    {"Softplus", "1", "X:N", "Y:N"},
}};

}  // namespace
}  // namespace ipu::ops
