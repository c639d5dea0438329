// Conversions between dtypes, and the identities: nop passes gradients, detach stops them, refuse_gradient
// refuses them, straight_through leads them elsewhere, flat makes them zero.
#include "ops/definition/family.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

void import_cast(AtenImportCall& c) { c.set_result(0, c.cast(c.tensor("self"), c.result_type(0).dtype)); }

// The operand itself, in its memory.
ir::ViewRule same_view() {
  ir::ViewRule rule;
  rule.write = [](ir::Builder&, const ir::Op&, int, ir::Value*, ir::Value* contents) { return contents; };
  rule.strides = [](const ir::Op&, const ir::StridedView& operand) { return std::optional(operand); };
  rule.is_same = rule.keeps_order = true;
  return rule;
}

const OpRegistration cast =
    define_op("cast", "conversion")
        .doc(
            "x as another dtype. Floats truncate and saturate to i32, wrap to narrower integers; bool is x "
            "differs from 0.")
        .operand("x", kNumber | kBoolean)
        .attribute("dtype")
        .result("y")
        .elementwise(
            [](std::span<const Expr> in, const Attributes& a) { return ops::cast(in[0], a.dtype("dtype")); })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.cast(g.upstream(), g.operand_type(0).dtype));
        })
        .from_aten({"_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as"},
                   import_cast)
        .samples({{{f32({9})}, {{"dtype", DType::kF16}}, -3, 3, {}},
                  {{f16({9})}, {{"dtype", DType::kF32}}, -3, 3, {}},
                  {{f32({2, 9})}, {{"dtype", DType::kI32}}, -9, 9, {}},
                  {{i32({9})}, {{"dtype", DType::kF32}}, -9, 9, {}},
                  {{i32({9})}, {{"dtype", DType::kBool}}, -1, 1, {}},
                  {{boolean({9})}, {{"dtype", DType::kF32}}, 0, 1, {}},
                  {{i32({9})}, {{"dtype", DType::kI8}}, -300, 300, {}}});

// y = x, in its memory. What differs is the gradient.
OpDefBuilder identity(std::string name, std::string doc, DTypeSet types = kAnything) {
  return define_op(std::move(name), "conversion")
      .doc(std::move(doc))
      .operand("x", types)
      .result("y")
      .elementwise([](std::span<const Expr> in, const Attributes&) { return in[0]; })
      .view(same_view())
      .samples({{{f32({2, 3})}, {}, -1, 1, {}}});
}

const OpRegistration nop = identity("nop", "x.")
                               .gradient([](GradientBuilder& g) { g.set(0, g.upstream()); })
                               .samples(unary_samples());

const OpRegistration forward_only =
    identity("forward_only",
             "x of an operator that its front end cannot differentiate: asking for a gradient is an error.")
        .gradient_refused("the operator before it has no gradient in PopART");

// PopART builds some gradients that no device can run, and says so when it compiles.
const OpRegistration no_device_gradient =
    identity(
        "no_device_gradient",
        "x, whose gradient no device can compute: asking for it is an error when the program is compiled.")
        .gradient([](GradientBuilder& g) { g.set(0, g.op("no_device_code", {g.upstream()})); });

const OpRegistration no_device_code =
    define_op("no_device_code", "conversion")
        .doc(
            "Stands for what is computed from x and no device can compute: compiling it is an error, for this reason.")
        .operand("x", kAnything)
        .attribute("reason", "")
        .result("y")
        .traits(kNoDeviceCode)
        .elementwise([](std::span<const Expr> in, const Attributes&) { return in[0]; })
        .gradient([](GradientBuilder& g) { g.set(0, g.op("no_device_code", {g.upstream()})); })
        .samples({{{f32({2, 3})}, {}, -1, 1, {}}});

const OpRegistration detach = identity("detach", "x; gradients stop here.")
                                  .gradient_zero()
                                  .from_aten({"detach", "detach_copy"}, [](AtenImportCall& c) {
                                    c.set_result(0, c.op("detach", {c.tensor("self")}));
                                  });

// Marks what an operator has no gradient for, though the ops it is made of have one.
const OpRegistration refuse_gradient =
    identity("refuse_gradient", "x; a gradient that leads to it is an error.", kAnyFloat)
        .gradient_refused("the operator it is a part of has no gradient for it");

// Marks a step function of x, whose slope is zero though nothing stops the gradient.
const OpRegistration flat =
    define_op("flat", "conversion")
        .doc("value; the gradient of x is zero.")
        .operand("x", kAnyFloat)
        .operand("value", kAnyFloat)
        .result("y")
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 1);
          require_same_shape(c, 0, 1);
          return std::vector<ir::Type>{c.operand(1)};
        })
        .elementwise([](std::span<const Expr> in, const Attributes&) { return in[1]; })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.zeros(g.operand_type(0)));
        })
        .samples({{{f32({2, 3}), f32({2, 3})}, {}, -1, 1, {}}, {{f16({4}), f16({4})}, {}, -1, 1, {}}});

// What torch means by writing x with gradients off: the memory changes, the history of x does not.
const OpRegistration straight_through =
    define_op("straight_through", "conversion")
        .doc("value; its gradient goes to x, as if x had not been overwritten.")
        .operand("x", kAnyFloat)
        .operand("value", kAnyFloat)
        .result("y")
        .infer([](const InferContext& c) {
          require_same_dtype(c, 0, 1);
          require_same_shape(c, 0, 1);
          return std::vector<ir::Type>{c.operand(1)};
        })
        .elementwise([](std::span<const Expr> in, const Attributes&) { return in[1]; })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.upstream());
        })
        .samples({{{f32({2, 3}), f32({2, 3})}, {}, -1, 1, {}}, {{f16({4}), f16({4})}, {}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
