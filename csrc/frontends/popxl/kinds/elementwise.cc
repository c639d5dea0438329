// Elementwise ops of one input, and the copies: Identity, Detach.
#include <cmath>
#include <limits>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"

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

}  // namespace
}  // namespace ipu::popxl
