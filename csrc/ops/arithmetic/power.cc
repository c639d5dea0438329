// Powers. Common constant exponents become products and roots, as torch computes them.
#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

void import_power(AtenImportCall& c) {
  const DType dtype = c.result_type(0).dtype;
  ir::Value* base = c.operand("self", dtype);
  if (!c.is_tensor("exponent")) {
    const double exponent = c.real("exponent");
    const bool floating = is_floating_point(dtype);
    if (exponent == 1.0) return c.set_result(0, base);
    if (exponent == 2.0) return c.set_result(0, c.op("mul", {base, base}));
    if (exponent == 3.0) return c.set_result(0, c.op("mul", {c.op("mul", {base, base}), base}));
    if (floating && exponent == 0.5) return c.set_result(0, c.op("sqrt", {base}));
    if (floating && exponent == -0.5) return c.set_result(0, c.op("rsqrt", {base}));
    if (floating && exponent == -1.0) return c.set_result(0, c.op("reciprocal", {base}));
    if (floating && exponent == -2.0) return c.set_result(0, c.op("reciprocal", {c.op("mul", {base, base})}));
  }
  c.set_result(0, c.op("pow", {base, c.operand("exponent", dtype)}));
}

const OpRegistration pow =
    define_op("pow", "arithmetic")
        .doc(
            "x to the power of exponent; 0 to the power of 0 is 1. Integers wrap; a negative exponent gives "
            "the integer part.")
        .operand("x", kNumber)
        .operand("exponent", kNumber)
        .result("y")
        .elementwise(
            [](std::span<const Expr> in, const Attributes&) { return binary(Func::kPow, in[0], in[1]); })
        .gradient([](GradientBuilder& g) {
          ir::Value *x = g.operand(0), *exponent = g.operand(1);
          if (g.needs(0)) g.set_reduced(0, g.op("pow_base_gradient", {x, exponent, g.upstream()}));
          if (g.needs(1))
            g.set_reduced(1, g.op("pow_exponent_gradient", {x, exponent, g.result(), g.upstream()}));
        })
        .from_aten({"pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"}, import_power)
        .samples(binary_samples(0.25, 2.5))
        .samples({{{i32({9}), i32({9})}, {}, 0, 6, {}}, {{f32({9}), f32({})}, {}, 0.25, 2, {}}});

const OpRegistration pow_base_gradient =
    define_op("pow_base_gradient", "arithmetic")
        .doc("dy * exponent * x^(exponent - 1), and 0 where the exponent is 0.")
        .operand("x", kAnyFloat)
        .operand("exponent", kAnyFloat)
        .operand("dy", kAnyFloat)
        .result("dx")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const Expr x = in[0], exponent = in[1], dy = in[2];
          const Expr zero = Expr::constant(x.dtype(), 0.0);
          return select(equal(exponent, zero), zero, dy * (exponent * binary(Func::kPow, x, exponent - 1.0)));
        })
        .gradient_by_expression()
        .samples({{{f32({9}), f32({}), f32({9})}, {}, 0.25, 2, {}},
                  {{f16({9}), f16({9}), f16({9})}, {}, 0.25, 2, {}}});

const OpRegistration pow_exponent_gradient =
    define_op("pow_exponent_gradient", "arithmetic")
        .doc("dy * y * log(x), and 0 where x = 0 and the exponent is not negative.")
        .operand("x", kAnyFloat)
        .operand("exponent", kAnyFloat)
        .operand("y", kAnyFloat)
        .operand("dy", kAnyFloat)
        .result("dexponent")
        .elementwise([](std::span<const Expr> in, const Attributes&) {
          const Expr x = in[0], exponent = in[1], y = in[2], dy = in[3];
          const Expr zero = Expr::constant(x.dtype(), 0.0);
          const Expr flat = binary(Func::kAnd, equal(x, zero), exponent >= zero);
          return dy * select(flat, zero, y * unary(Func::kLog, x));
        })
        .gradient_by_expression()
        .samples({{{f32({9}), f32({9}), f32({9}), f32({9})}, {}, 0.25, 2, {}}});

}  // namespace
}  // namespace ipu::ops
