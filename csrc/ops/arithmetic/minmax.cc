// maximum, minimum, clamp. NaN wins. A tie splits the gradient evenly between a and b (torch's convention);
// clamp passes it at the bounds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Gradient of the pick with respect to `a`; exchange a and b for the other.
OpDefBuilder pick_gradient(std::string name, std::string doc, Func loses) {
  OpDefBuilder builder(std::move(name), "arithmetic");
  builder.doc(std::move(doc))
      .operand("a", kAnyFloat)
      .operand("b", kAnyFloat)
      .operand("dy", kAnyFloat)
      .result("da")
      .elementwise([loses](std::span<const Expr> in, const Attributes&) {
        const Expr a = in[0], b = in[1], dy = in[2];
        return select(equal(a, b), dy * 0.5,
                      select(binary(loses, a, b), Expr::constant(dy.dtype(), 0.0), dy));
      })
      .gradient_by_expression()
      .samples({{{f32({2, 3}), f32({3}), f32({2, 3})}, {}, -1, 1, {}},
                {{f16({5}), f16({5}), f16({5})}, {}, -1, 1, {}}});
  return builder;
}

OpDefBuilder pick(std::string name, std::string doc, Func func) {
  OpDefBuilder builder(name, "arithmetic");
  builder.doc(std::move(doc))
      .operand("a", kNumber | kBoolean)
      .operand("b", kNumber | kBoolean)
      .result("y")
      .traits(kCommutative)
      .elementwise([func](std::span<const Expr> in, const Attributes&) { return binary(func, in[0], in[1]); })
      .gradient([gradient = name + "_gradient"](GradientBuilder& g) {
        ir::Value *a = g.operand(0), *b = g.operand(1);
        if (g.needs(0)) g.set_reduced(0, g.op(gradient, {a, b, g.upstream()}));
        if (g.needs(1)) g.set_reduced(1, g.op(gradient, {b, a, g.upstream()}));
      })
      .from_aten({name}, import_binary(name))
      .samples(binary_samples())
      .samples(integer_samples());
  return builder;
}

const OpRegistration maximum =
    pick("maximum", "The larger of a and b; NaN if one is.", Func::kMax).from_tensorflow({"Maximum"});
const OpRegistration minimum =
    pick("minimum", "The smaller of a and b; NaN if one is.", Func::kMin).from_tensorflow({"Minimum"});
const OpRegistration maximum_gradient =
    pick_gradient("maximum_gradient", "dy where a > b, half of it where a = b.", Func::kLt);
const OpRegistration minimum_gradient =
    pick_gradient("minimum_gradient", "dy where a < b, half of it where a = b.", Func::kGt);

// A bound that lies beyond an integer type limits as the end of the type does.
double in_range(DType dtype, double bound) {
  if (!is_integer(dtype)) return bound;
  const bool is_unsigned = dtype == DType::kU32 || dtype == DType::kU16 || dtype == DType::kU8;
  const double values = std::exp2(8.0 * static_cast<double>(size_in_bytes(dtype)));
  return is_unsigned ? std::clamp(bound, 0.0, values - 1.0)
                     : std::clamp(bound, -values / 2.0, values / 2.0 - 1.0);
}

void import_clamp(AtenImportCall& c) {
  const DType dtype = c.result_type(0).dtype;
  ir::Value* x = c.operand("self", dtype);
  const bool tensors = (c.has("min") && c.is_tensor("min")) || (c.has("max") && c.is_tensor("max"));
  if (!tensors) {
    Attributes bounds;
    if (c.has("min")) bounds.set("min", c.real("min"));
    if (c.has("max")) bounds.set("max", c.real("max"));
    c.set_result(0, c.op("clamp", {x}, std::move(bounds)));
    return;
  }
  // Selections give torch's gradient: to the bound where it is taken, to x elsewhere, ties included. A bound that is
  // NaN is taken.
  const auto limit = [&](std::string_view beyond, ir::Value* bound) {
    ir::Value* taken = c.op(beyond, {x, bound});
    if (is_floating_point(dtype)) taken = c.op("logical_or", {taken, c.op("is_nan", {bound})});
    x = c.op("where", {taken, bound, x});
  };
  if (c.has("min")) limit("less", c.operand("min", dtype));
  if (c.has("max")) limit("greater", c.operand("max", dtype));
  c.set_result(0, x);
}

const OpRegistration clamp =
    define_op("clamp", "arithmetic")
        .doc("x limited to [min, max]; max wins when min > max. NaN stays.")
        .operand("x", kNumber)
        .attribute("min", -kInfinity)
        .attribute("max", kInfinity)
        .result("y")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          Expr y = in[0];
          const DType dtype = y.dtype();
          if (a.real("min") != -kInfinity)
            y = binary(Func::kMax, y, Expr::constant(dtype, in_range(dtype, a.real("min"))));
          if (a.real("max") != kInfinity)
            y = binary(Func::kMin, y, Expr::constant(dtype, in_range(dtype, a.real("max"))));
          return y;
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("clamp_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .from_aten(
            {"clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor"},
            import_clamp)
        .samples(unary_samples(-3, 3, {{"min", -1.0}, {"max", 1.5}}))
        .samples({{{f32({9})}, {{"min", 0.25}}, -1, 1, {}},
                  {{f32({9})}, {{"max", 0.25}}, -1, 1, {}},
                  {{i32({9})}, {{"min", -2.0}, {"max", 3.0}}, -9, 9, {}}});

const OpRegistration clamp_gradient =
    define_op("clamp_gradient", "arithmetic")
        .doc("dy where min <= x <= max, 0 elsewhere.")
        .operand("x", kAnyFloat)
        .operand("dy", kAnyFloat)
        .attribute("min", -kInfinity)
        .attribute("max", kInfinity)
        .result("dx")
        .elementwise([](std::span<const Expr> in, const Attributes& a) {
          const Expr x = in[0], zero = Expr::constant(in[1].dtype(), 0.0);
          Expr dx = in[1];
          if (a.real("max") != kInfinity) dx = select(x <= a.real("max"), dx, zero);
          if (a.real("min") != -kInfinity) dx = select(x >= a.real("min"), dx, zero);
          return dx;
        })
        .gradient([](GradientBuilder& g) {
          if (g.needs(0)) g.set(0, g.zeros(g.operand_type(0)));
          if (g.needs(1)) g.set(1, g.op("clamp_gradient", {g.operand(0), g.upstream()}, g.attributes()));
        })
        .samples({{{f32({9}), f32({9})}, {{"min", -0.5}, {"max", 0.5}}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
