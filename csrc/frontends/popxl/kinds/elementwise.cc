// Elementwise ops of one input, and the copies: Identity, Detach.
#include <cmath>
#include <limits>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

const KindRegistration abs_kind = define_kind("Abs").id("ai.onnx", 6).gradient({in(0)}).function("abs", 1);
const KindRegistration ceil_kind = define_kind("Ceil").id("ai.onnx", 6).zero_gradient().function("ceil", 1);
const KindRegistration floor_kind =
    define_kind("Floor").id("ai.onnx", 6).zero_gradient().function("floor", 1);
const KindRegistration sign_kind = define_kind("Sign").id("ai.onnx", 9).zero_gradient().function("sign", 1);
const KindRegistration cos_kind =
    define_kind("Cos").id("ai.onnx", 7).late_types(LateTypes::kFloats).gradient({in(0)}).function("cos", 1);
const KindRegistration sin_kind =
    define_kind("Sin").id("ai.onnx", 7).late_types(LateTypes::kFloats).gradient({in(0)}).function("sin", 1);
const KindRegistration exp_kind = define_kind("Exp")
                                      .id("ai.onnx", 6)
                                      .late_types(LateTypes::kFloats)
                                      .gradient({out(0)})
                                      .function("exp", 1)
                                      .in_place();
const KindRegistration log_kind =
    define_kind("Log").id("ai.onnx", 6).late_types(LateTypes::kFloats).gradient({in(0)}).function("log", 1);
const KindRegistration sqrt_kind = define_kind("Sqrt")
                                       .id("ai.onnx", 6)
                                       .late_types(LateTypes::kFloats)
                                       .gradient({out(0)})
                                       .function("sqrt", 1);
const KindRegistration tanh_kind = define_kind("Tanh")
                                       .id("ai.onnx", 6)
                                       .late_types(LateTypes::kFloats)
                                       .gradient({out(0)})
                                       .function("tanh", 1);
const KindRegistration neg_kind =
    define_kind("Neg").class_name("NegateOp").id("ai.onnx", 6).gradient().function("neg", 1);
// relu_gradient is of floats alone.
void relu_gradient(LowerCall& c) {
  ir::Value *y = c.forward_output(0), *dy = c.upstream(0);
  if (is_floating_point(y->type().dtype)) return c.set_gradient(0, c.build("relu_gradient", {y, dy}));
  ir::Value* is_positive = c.build("greater", {y, c.scalar_like(y, 0.0)});
  c.set_gradient(0, c.build("where", {is_positive, dy, c.scalar_like(dy, 0.0)}));
}
const KindRegistration relu_kind = define_kind("Relu")
                                       .id("ai.onnx", 6)
                                       .gradient({out(0)})
                                       .function("relu", 1)
                                       .in_place()
                                       .lower_gradient(relu_gradient);
const KindRegistration gelu_kind = define_kind("Gelu")
                                       .graphcore()
                                       .late_types(LateTypes::kFloats)
                                       .gradient({in(0)})
                                       .function("gelu", 1, {{"approximate", std::string("tanh")}})
                                       .in_place();
const KindRegistration geluerf_kind = define_kind("GeluErf")
                                          .graphcore()
                                          .late_types(LateTypes::kFloats)
                                          .gradient({in(0)})
                                          .function("gelu", 1)
                                          .in_place();
const KindRegistration swish_kind = define_kind("Swish")
                                        .graphcore()
                                        .late_types(LateTypes::kFloats)
                                        .gradient({in(0)})
                                        .function("silu", 1)
                                        .in_place();

// nop without `in_place` is a copy.
const KindRegistration identity_kind = define_kind("Identity").gradient().function("nop", 1);
const KindRegistration detach_kind = define_kind("Detach").graphcore().function("detach", 1);
const KindRegistration detach_inplace_kind =
    define_kind("DetachInplace").graphcore().views({0}).function("detach", 1, {{"in_place", int64_t{0}}});

const KindRegistration is_nan_kind =
    define_kind("IsNaN").class_name("IsNaN").id("ai.onnx", 9).predicate("is_nan", 1);
const KindRegistration is_inf_kind =
    define_kind("IsInf")
        .class_name("IsInf")
        .id("ai.onnx", 10)
        .elementwise(Elementwise::kBooleans, 1)
        .lower([](LowerCall& c) {
          ir::Value* x = c.input(0);
          if (!is_floating_point(x->type().dtype))  // no integer is infinite
            return c.set_output(0, c.build("not_equal", {x, x}));
          const double infinity = std::numeric_limits<double>::infinity();
          c.set_output(0, c.build("equal", {c.build("abs", {x}), c.scalar_like(x, infinity)}));
        });

// The gradient knows the result alone: it is the limit where the input is the limit or beyond.
void clip_gradient(LowerCall& c) {
  ir::Value *y = c.forward_output(0), *dy = c.upstream(0);
  const double infinity = std::numeric_limits<double>::infinity();
  const double low = c.attributes().real("min", -infinity), high = c.attributes().real("max", infinity);
  ir::Value* zero = c.scalar_like(dy, 0.0);
  ir::Value* dx = dy;
  if (low != -infinity) dx = c.build("where", {c.build("greater", {y, c.scalar_like(y, low)}), dx, zero});
  if (high != infinity) dx = c.build("where", {c.build("less", {y, c.scalar_like(y, high)}), dx, zero});
  c.set_gradient(0, dx == dy ? c.build("nop", {dy}) : dx);
}

const KindRegistration clip_kind =
    define_kind("Clip")
        .id("ai.onnx", 6)
        .elementwise(Elementwise::kNumbers, 1)
        .gradient({out(0)})
        .lower([](LowerCall& c) {
          const double infinity = std::numeric_limits<double>::infinity();
          c.set_output(0, c.build("clamp", {c.input(0)},
                                  {{"min", c.attributes().real("min", -infinity)},
                                   {"max", c.attributes().real("max", infinity)}}));
        })
        .lower_gradient(clip_gradient);

const KindRegistration increment_mod_kind =
    define_kind("IncrementMod")
        .graphcore()
        .elementwise(Elementwise::kNumbers, 1)
        .in_place()
        .lower([](LowerCall& c) {
          ir::Value* x = c.input(0);
          ir::Value* next = c.build("add", {x, c.scalar_like(x, c.attributes().real("increment"))});
          c.set_output(0, c.build("remainder", {next, c.scalar_like(x, c.attributes().real("modulus"))}));
        });

const CreatorRegistration elementwise_creators = {{
    {"ClipOp", "opid min_>min:real max_>max:real settings"},
    {"IncrementModOp", "opid increment_>increment:real modulus_>modulus:real settings"},
    {"IncrementModInplaceOp", "increment_>increment:real modulus_>modulus:real settings"},
}};
const FunctionRegistration elementwise_functions = {{
    {"Abs", "abs(t) -> abs_out", "|t|; its gradient is 0 at 0.",
     "y = ops.abs(popxl.constant([-1.0, 2.0]))  # 1, 2"},
    {"Ceil", "ceil(t) -> ceil_out", "The smallest whole numbers not below; the gradient is 0.",
     "y = ops.ceil(popxl.constant([-1.5, 1.5]))  # -1, 2"},
    {"Floor", "floor(t) -> floor_out", "The largest whole numbers not above; the gradient is 0.",
     "y = ops.floor(popxl.constant([-1.5, 1.5]))  # -2, 1"},
    {"Clip", "clip(t, min:float=float('-inf'), max:float=float('inf')) -> clip_out",
     "Limits to [min, max]; NaN stays. The gradient is 0 where the result is a limit.",
     "y = ops.clip(popxl.constant([-3.0, 0.5]), -1, 1)  # -1, 0.5"},
    {"Cos", "cos(t) -> cos_out", "Cosine of radians.", "y = ops.cos(popxl.constant([0.0]))  # 1"},
    {"Sin", "sin(t) -> sin_out", "Sine of radians.", "y = ops.sin(popxl.constant([0.0]))  # 0"},
    {"Exp", "exp(t) -> exp_out", "e to the power of t, of a float tensor.",
     "y = ops.exp(popxl.constant([0.0]))  # 1"},
    {"ExpInplace", "exp_(t) -> exp_inplace_out", "As `exp`; overwrites `t`."},
    {"Gelu", "gelu(t) -> gelu_out", "0.5 t (1 + tanh(sqrt(2 / pi) (t + 0.044715 t^3))), of a float tensor.",
     "y = ops.gelu(x)"},
    {"GeluInplace", "gelu_(t) -> gelu_inplace_out", "As `gelu`; overwrites `t`."},
    {"GeluErf", "geluerf(t) -> geluerf_out", "0.5 t (1 + erf(t / sqrt(2))), of a float tensor.",
     "y = ops.geluerf(x)"},
    {"GeluErfInplace", "geluerf_(t) -> geluerf_inplace_out", "As `geluerf`; overwrites `t`."},
    {"IncrementMod", "increment_mod(t, increment:float, modulus:float) -> increment_mod_out",
     "(t + increment) modulo `modulus`, with the sign of `modulus`. No gradient.",
     "step = ops.increment_mod(step, 1, 10)  # 0, 1, ..., 9, 0"},
    {"IncrementModInplace", "increment_mod_(t, increment:float, modulus:float) -> increment_mod_inplace_out",
     "As `increment_mod`; overwrites `t`."},
    {"IsNaN", "isnan(t) -> isnan_out", "Where t is not a number, as bool. No gradient.",
     "y = ops.isnan(popxl.constant([1.0, float(\"nan\")]))  # False, True"},
    {"IsInf", "isinf(t) -> isinf_out", "Where t is infinite, as bool. No gradient.",
     "y = ops.isinf(popxl.constant([1.0, float(\"-inf\")]))  # False, True"},
    {"Log", "log(t) -> log_out", "Natural logarithm, of a float tensor.",
     "y = ops.log(popxl.constant([1.0]))  # 0"},
    {"Neg", "negate(t) -> negate_out", "-t.", "y = ops.negate(popxl.constant([1.0]))  # -1"},
    {"Relu", "relu(t) -> relu_out", "The larger of t and 0.",
     "y = ops.relu(popxl.constant([-1.0, 1.0]))  # 0, 1"},
    {"ReluInplace", "relu_(t) -> relu_inplace_out", "As `relu`; overwrites `t`."},
    {"Sign", "sign(t) -> sign_out", "-1, 0 or 1; 0 of NaN. The gradient is 0.",
     "y = ops.sign(popxl.constant([-3.0, 0.0]))  # -1, 0"},
    {"Sqrt", "sqrt(t) -> sqrt_out", "Square root, of a float tensor; NaN below 0.",
     "y = ops.sqrt(popxl.constant([4.0]))  # 2"},
    {"Swish", "swish(t) -> swish_out", "t times its sigmoid, of a float tensor.", "y = ops.swish(x)"},
    {"SwishInplace", "swish_(t) -> swish_inplace_out", "As `swish`; overwrites `t`."},
    {"Tanh", "tanh(t) -> tanh_out", "Hyperbolic tangent, of a float tensor.",
     "y = ops.tanh(popxl.constant([0.0]))  # 0"},
    {"Identity", "identity(t, output_name:text=None) -> {output_name or f'identity_{t.name}'}",
     "A copy, called `output_name` or `identity_<name of t>`.",
     "y = ops.identity(x, \"hidden\")  # its id is \"hidden\""},
    {"Detach", "detach(t) -> detach_out", "A copy through which no gradient passes.",
     "target = ops.detach(y)"},
    {"DetachInplace", "detach_(t) -> detach_out", "As `detach`, in the memory of `t`."},
}};

}  // namespace
}  // namespace ipu::popxl
