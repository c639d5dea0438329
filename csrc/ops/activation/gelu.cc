// Activations x * gate(x): gelu (exact and tanh form), silu, mish, hardswish; each with its gradient as one
// op.
#include <fmt/core.h>

#include "ops/definition/family.h"
#include "ops/definition/graphcore_nodes.h"
#include "ops/definition/node_import_call.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

constexpr double kDensityAtZero = 0.39894228040143267794;  // of the normal distribution: 1 / sqrt(2 pi)
constexpr double kTanhScale = 0.79788456080286535588;      // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

bool is_exact(const Attributes& a) { return a.text("approximate") == "none"; }

std::string form_of(ImportCall& call) {
  const std::string form = call.has("approximate") ? call.text("approximate") : "none";
  if (form != "none" && form != "tanh")
    call.unsupported(fmt::format("approximate '{}' is not none or tanh", form));
  return form;
}

Expr tanh_argument(const Expr& x) { return (x + x * x * x * kTanhCubic) * kTanhScale; }

const OpRegistration gelu =
    define_op("gelu", "activation")
        .doc(
            "x times the normal distribution function of x: exact with approximate = \"none\", its tanh form "
            "with \"tanh\".")
        .operand("x", kAnyFloat)
        .attribute("approximate", "none")
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const Expr x = in[0];
          if (is_exact(a)) return unary(Func::kGelu, x);
          return x * 0.5 * (unary(Func::kTanh, tanh_argument(x)) + 1.0);
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("gelu_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .work(one_pass({"Gelu"}))  // the library has it whole, in the form of tanh
        .from_onnx("Gelu", {20},
                   [](NodeImportCall& c) {
                     c.set_result(0, c.op("gelu", {c.operand(0)}, {{"approximate", form_of(c)}}));
                   })
        .from_aten({"gelu"},
                   [](AtenImportCall& c) {
                     c.set_result(0, c.op("gelu", {c.tensor("self")}, {{"approximate", form_of(c)}}));
                   })
        .from_graphcore(
            "Gelu",
            [](NodeImportCall& c) {
              c.set_result(0, c.op("gelu", {c.operand(0)}, {{"approximate", std::string("tanh")}}));
            })
        .from_graphcore("GeluErf", [](NodeImportCall& c) { c.set_result(0, c.op("gelu", {c.operand(0)})); })
        .samples(unary_samples())
        .samples(unary_samples(-3, 3, {{"approximate", std::string("tanh")}}));

const OpRegistration gelu_gradient =
    activation_gradient_op("gelu_gradient", "x", "dy times the slope of gelu at x.",
                           [](Expr x, Expr dy, const Attributes& a) {
                             if (is_exact(a)) return dy * unary(Func::kGeluSlope, x);
                             const Expr t = unary(Func::kTanh, tanh_argument(x));
                             const Expr slope = (x * x * (3.0 * kTanhCubic) + 1.0) * kTanhScale;
                             return dy * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope);
                           })
        .attribute("approximate", "none")
        .work(one_pass({"GeluSlope"}))
        .samples({{{f32({9}), f32({9})}, {{"approximate", std::string("tanh")}}, -3, 3, {}}});

const OpRegistration gelu_slope =
    unary_op("gelu_slope", "activation",
             "The slope of the exact gelu: the normal distribution function of x plus x times its density.",
             Func::kGeluSlope, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
          // density(x) * (2 - x^2)
          ir::Value* square = g.mul(g.operand(0), g.operand(0));
          ir::Value* density = g.scale(g.op("exp", {g.scale(square, -0.5)}), kDensityAtZero);
          return g.mul(dy, g.sub(g.scale(density, 2.0), g.mul(density, square)));
        }))
        .samples(unary_samples());

const OpRegistration silu = define_op("silu", "activation")
                                .doc("x * sigmoid(x).")
                                .operand("x", kAnyFloat)
                                .result("y")
                                .elementwise([](std::span<const Expr> in, const Attributes&) {
                                  return in[0] * unary(Func::kSigmoid, in[0]);
                                })
                                .gradient([](GradientBuilder& g) {
                                  g.set(0, g.op("silu_gradient", {g.operand(0), g.upstream()}));
                                })
                                .from_aten({"silu"})
                                .from_graphcore("Swish")
                                .samples(unary_samples());

const OpRegistration silu_gradient = activation_gradient_op(
    "silu_gradient", "x", "dy times the slope of silu at x.", [](Expr x, Expr dy, const Attributes&) {
      const Expr s = unary(Func::kSigmoid, x);
      return dy * s * (x * (1.0 - s) + 1.0);
    });

Expr softplus_tanh(const Expr& x) {
  // log1p(exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|)).
  const Expr tail = unary(Func::kLog1p, unary(Func::kExp, -unary(Func::kAbs, x)));
  return unary(Func::kTanh, binary(Func::kMax, x, Expr::constant(x.dtype(), 0.0)) + tail);
}

const OpRegistration mish =
    define_op("mish", "activation")
        .doc("x * tanh(log(1 + exp(x))).")
        .operand("x", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) { return in[0] * softplus_tanh(in[0]); })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("mish_gradient", {g.operand(0), g.upstream()}));
        })
        .from_aten({"mish"})
        .from_onnx("Mish", {18})
        .samples(unary_samples());

const OpRegistration mish_gradient = activation_gradient_op(
    "mish_gradient", "x", "dy times the slope of mish at x.", [](Expr x, Expr dy, const Attributes&) {
      const Expr t = softplus_tanh(x);
      return dy * (t + x * unary(Func::kSigmoid, x) * (1.0 - t * t));
    });

const OpRegistration hardswish =
    define_op("hardswish", "activation")
        .doc("x * clamp(x + 3, 0, 6) / 6.")
        .operand("x", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const DType dtype = in[0].dtype();
          const Expr raised = binary(Func::kMax, in[0] + 3.0, Expr::constant(dtype, 0.0));
          return in[0] * binary(Func::kMin, raised, Expr::constant(dtype, 6.0)) / 6.0;
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("hardswish_gradient", {g.operand(0), g.upstream()}));
        })
        .from_aten({"hardswish"})
        .from_onnx("HardSwish", {14})
        .samples(unary_samples(-5, 5));

const OpRegistration hardswish_gradient =
    activation_gradient_op("hardswish_gradient", "x",
                           "0 for x <= -3, dy for x >= 3, dy * (x / 3 + 1 / 2) between.",
                           [](Expr x, Expr dy, const Attributes&) {
                             const Expr between = select(x < 3.0, dy * (x / 3.0 + 0.5), dy);
                             return select(x <= -3.0, Expr::constant(dy.dtype(), 0.0), between);
                           })
        .samples({{{f32({16}), f32({16})}, {}, -5, 5, {}}});

struct GeluGraphcoreOperators {
  GeluGraphcoreOperators() {
    describe_graphcore_operator({"Gelu", "gelu", "x:F", "y=:F", "yes", "", "The tanh form of GELU."});
    describe_graphcore_operator({"GeluErf", "geluerf", "x:F", "y=:F", "yes", "", "The exact form of GELU."});
  }
};
const GeluGraphcoreOperators gelu_graphcore_operators;

}  // namespace
}  // namespace ipu::ops
