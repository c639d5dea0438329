// Products, and the compound importers that are products and sums: lerp, addcmul, addcdiv, square.
// On bool, mul is "and" (as torch).
#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

const OpRegistration mul =
    define_op("mul", "arithmetic")
        .doc("a * b; integers wrap; on bool: a and b.")
        .operand("a", kNumber | kBoolean)
        .operand("b", kNumber | kBoolean)
        .result("y")
        .traits(kCommutative)
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          return in[0].dtype() == DType::kBool ? binary(Func::kAnd, in[0], in[1]) : in[0] * in[1];
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set_reduced(0, g.mul(g.upstream(), g.operand(1)));
          if (g.needs(1)) g.set_reduced(1, g.mul(g.upstream(), g.operand(0)));
        })
        .from_aten({"mul.Tensor", "mul.Scalar"}, import_binary("mul"))
        .from_aten({"square"},
                   [](AtenImportCall& c) {
                     ir::Value* x = c.operand("self", c.result_type(0).dtype);
                     c.set_result(0, c.op("mul", {x, x}));
                   })
        // torch's order: (value * t1) op t2, then the sum.
        .from_aten({"addcmul"},
                   [](AtenImportCall& c) {
                     const DType dtype = c.result_type(0).dtype;
                     ir::Value* t = c.operand("tensor1", dtype);
                     if (c.has("value") && c.real("value") != 1.0)
                       t = c.op("mul", {t, c.operand("value", dtype)});
                     t = c.op("mul", {t, c.operand("tensor2", dtype)});
                     c.set_result(0, c.op("add", {c.operand("self", dtype), t}));
                   })
        .from_aten({"addcdiv"},
                   [](AtenImportCall& c) {
                     const DType dtype = c.result_type(0).dtype;
                     ir::Value* t = c.operand("tensor1", dtype);
                     if (c.has("value") && c.real("value") != 1.0)
                       t = c.op("mul", {t, c.operand("value", dtype)});
                     t = c.op("div", {t, c.operand("tensor2", dtype)});
                     c.set_result(0, c.op("add", {c.operand("self", dtype), t}));
                   })
        .from_tensorflow({"Mul"})
        .samples(binary_samples())
        .samples(integer_samples())
        .samples({{{boolean({9}), boolean({9})}, {}, 0, 1, {}},
                  {{i32({5}), i32({5})}, {}, -2147483647.0, 2147483647.0, {}}});

const OpRegistration lerp =
    define_op("lerp", "arithmetic")
        .doc("a + weight * (b - a), from the nearer end, so that weight = 1 gives b exactly.")
        .operand("a", kAnyFloat)
        .operand("b", kAnyFloat)
        .operand("weight", kAnyFloat)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const Expr a = in[0], b = in[1], weight = in[2], distance = b - a;
          const Expr size = unary(Func::kAbs, weight);
          return select(size < 0.5, a + weight * distance, b - distance * (1.0 - weight));
        })
        .gradient([](GradientBuilder& g) {
          ir::Value* dy = g.upstream();
          ir::Value* weight = g.operand(2);
          if (g.needs(0)) g.set_reduced(0, g.mul(dy, g.sub(g.scalar_like(weight, 1.0), weight)));
          if (g.needs(1)) g.set_reduced(1, g.mul(dy, weight));
          if (g.needs(2)) g.set_reduced(2, g.mul(dy, g.sub(g.operand(1), g.operand(0))));
        })
        .from_aten({"lerp.Tensor", "lerp.Scalar"},
                   [](AtenImportCall& c) {
                     const DType dtype = c.result_type(0).dtype;
                     c.set_result(0, c.op("lerp", {c.operand("self", dtype), c.operand("end", dtype),
                                                   c.operand("weight", dtype)}));
                   })
        .samples({{{f32({2, 3}), f32({2, 3}), f32({})}, {}, -2, 2, {}},
                  {{f32({4, 3}), f32({3}), f32({4, 1})}, {}, -2, 2, {}},
                  {{f16({5}), f16({5}), f16({5})}, {}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
