// Elementwise ops of several inputs: arithmetic, the n-ary Sum and Max, ScaledAdd.
#include <fmt/core.h>

#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

const KindRegistration add_kind = define_kind("Add")
                                      .id("ai.onnx", 6)
                                      .gradients({{0, "Arg0Grad", {}}, {1, "Arg1Grad", {}}})
                                      .function("add", 2)
                                      .in_place("LhsInplace", 0)
                                      .in_place("RhsInplace", 1);
const KindRegistration sub_kind =
    define_kind("Sub")
        .class_name("SubtractOp")
        .id("ai.onnx", 7)
        .gradients({{0, "Arg0Grad", {}}, {1, "Arg1Grad", {in(0), in(1), out(0)}}})
        .function("sub", 2);
const KindRegistration mul_kind =
    define_kind("Mul")
        .id("ai.onnx", 7)
        .gradients({{0, "Arg0Grad", {in(0), in(1), out(0)}}, {1, "Arg1Grad", {in(0), in(1), out(0)}}})
        .function("mul", 2)
        .in_place("LhsInplace", 0)
        .in_place("RhsInplace", 1);
const KindRegistration div_kind =
    define_kind("Div")
        .id("ai.onnx", 7)
        .gradients({{0, "Arg0Grad", {in(0), in(1), out(0)}}, {1, "Arg1Grad", {in(0), in(1), out(0)}}})
        .function("div", 2);
const KindRegistration pow_kind =
    define_kind("Pow")
        .id("ai.onnx", 7)
        .gradients({{0, "Arg0Grad", {in(0), in(1), out(0)}}, {1, "Arg1Grad", {in(0), in(1), out(0)}}})
        .function("pow", 2)
        .in_place("LhsInplace", 0);
const KindRegistration fmod_kind =
    define_kind("Fmod").graphcore().gradients({{0, "Arg0Grad", {in(0), in(1), out(0)}}}).function("fmod", 2);

// All inputs, which broadcast.
ir::Value* fold(LowerCall& c, std::string_view kind) {
  ir::Value* y = c.input(0);
  if (c.input_count() == 1) return c.build("nop", {y});
  for (int i = 1; i < c.input_count(); ++i) y = c.build(kind, {y, c.input(i)});
  return y;
}
bool same_types(LowerCall& c) {
  for (int i = 1; i < c.input_count(); ++i)
    if (c.type(i) != c.type(0)) return false;
  return true;
}

const KindRegistration sum_kind = define_kind("Sum")
                                      .id("ai.onnx", 8)
                                      .elementwise(Elementwise::kNumbers)
                                      .gradient_row({{-1}, "SumArgGrad", {}})
                                      .lower([](LowerCall& c) {
                                        if (!same_types(c) || c.type(0).dtype == DType::kBool)
                                          return c.set_output(0, fold(c, "add"));
                                        std::vector<ir::Value*> inputs;
                                        for (int i = 0; i < c.input_count(); ++i)
                                          inputs.push_back(c.input(i));
                                        c.set_output(0, c.build("add_n", inputs));
                                      });

// The sum of `gradient` over what was broadcast to its shape from `shape`.
ir::Value* summed_to(LowerCall& c, ir::Value* gradient, const Shape& shape) {
  const Shape& from = gradient->type().shape;
  const size_t added = from.size() - shape.size();
  std::vector<int64_t> dims;
  for (size_t d = 0; d < from.size(); ++d)
    if (d < added || from[d] != shape[d - added]) dims.push_back(static_cast<int64_t>(d));
  if (!dims.empty()) gradient = c.reduce("reduce_sum", gradient, dims, true);
  return c.reshape(gradient, shape);
}

// Compares each argument with the result alone: every argument that holds the largest value gets the whole gradient.
void max_gradient(LowerCall& c) {
  for (const int argument : c.op().forward->differentiated) {
    ir::Value* is_largest = c.build("equal", {c.forward_input(argument), c.forward_output(0)});
    ir::Value* dx = c.build("where", {is_largest, c.upstream(0), c.scalar_like(c.upstream(0), 0.0)});
    c.set_gradient(argument, summed_to(c, dx, c.forward_input_type(argument).shape));
  }
}

// In a row for each input, in(-1) is that input.
const KindRegistration max_kind = define_kind("Max")
                                      .id("ai.onnx", 8)
                                      .elementwise(Elementwise::kNumbers)
                                      .gradient_row({{-1}, "MaxArgGrad", {in(-1), out(0)}})
                                      .lower([](LowerCall& c) { c.set_output(0, fold(c, "maximum")); })
                                      .lower_gradient(max_gradient);

// a * X + b * Y in the type of X; factors are numbers, or tensors 2 and 3. Halves with a factor are summed in f32, which is
// rounded once: a factor such as 1e-8 is 0 in f16.
ir::Value* scaled_sum(LowerCall& c) {
  ir::Value *x = c.input(0), *y = c.input(1);
  if (c.shape(0) != c.shape(1))
    c.refuse(fmt::format("the shapes {} and {} differ, and nothing is broadcast", ipu::to_string(c.shape(0)),
                         ipu::to_string(c.shape(1))));
  const auto is_one = [&](int factor, std::string_view attribute) {
    return !c.has(factor) && c.attributes().real(attribute, 1.0) == 1.0;
  };
  const DType result = c.type(0).dtype;
  const bool plain = is_one(2, "a") && is_one(3, "b") && c.type(1).dtype == result;
  const DType dtype = plain || !ipu::is_floating_point(result) ? result : DType::kF32;
  const auto scaled = [&](ir::Value* t, int factor, std::string_view attribute) {
    t = c.cast(t, dtype);
    return is_one(factor, attribute) ? t : c.build("mul", {t, c.factor(factor, attribute, dtype)});
  };
  return c.cast(c.build("add", {scaled(x, 2, "a"), scaled(y, 3, "b")}), result);
}

const KindRegistration scaled_add_kind =
    define_kind("ScaledAdd").graphcore().in_place("LhsInplace").lower([](LowerCall& c) {
      c.set_output(0, scaled_sum(c));
    });

const CreatorRegistration arithmetic_creators = {{
    {"ScaledAddOp", "opid scale_0_>a:real scale_1_>b:real settings"},
    {"ScaledAddLhsInplaceOp", "scale_0_>a:real scale_1_>b:real settings"},
}};
const FunctionRegistration arithmetic_functions = {{
    {"Add", "add(lhs, rhs) -> add_out", "lhs + rhs.", "y = ops.add(a, b)  # or a + b"},
    {"AddLhsInplace", "add_(lhs, rhs) -> add_lhs_inplace_out",
     "lhs becomes lhs + rhs; rhs broadcasts to the shape of lhs.",
     "total = ops.add_(total, x)  # or total += x"},
    {"Sub", "sub(lhs, rhs) -> sub_out", "lhs - rhs.", "y = ops.sub(a, b)  # or a - b"},
    {"Mul", "mul(lhs, rhs) -> mul_out", "lhs * rhs.", "y = ops.mul(a, b)  # or a * b"},
    {"Div", "div(lhs, rhs) -> div_out",
     "lhs / rhs; of integers the quotient without its fraction, 0 where rhs is 0.",
     "y = ops.div(a, b)  # or a / b"},
    {"Fmod", "fmod(lhs, rhs) -> fmod_out",
     "What the division leaves, with the sign of lhs; its gradient goes to lhs alone.",
     "y = ops.fmod(popxl.constant([-5.0]), popxl.constant([3.0]))  # -2"},
}};

}  // namespace
}  // namespace ipu::popxl
