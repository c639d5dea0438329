// Importers of ai.graphcore's arithmetic: remainders, rounding, scaled sums.
#include <fmt/core.h>

#include <cmath>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// a - b * trunc(a / b). Only the gradient for the dividend exists.
ir::Value* remainder_of_dividend(NodeImportCall& call, ir::Value* a, ir::Value* b) {
  return call.op("fmod", {a, refusing_gradient(call, b)});
}

void import_fmod(NodeImportCall& call) {
  require_equal_dtypes(call, 0, 1);
  call.set_result(0, remainder_of_dividend(call, call.operand(0), call.operand(1)));
}

// fmod(b + fmod(a, b), b): the sign of the divisor.
void import_remainder(NodeImportCall& call) {
  require_equal_dtypes(call, 0, 1);
  ir::Value *a = call.operand(0), *b = call.operand(1);
  ir::Value* moved = call.op("add", {b, remainder_of_dividend(call, a, b)});
  call.set_result(0, remainder_of_dividend(call, moved, b));
}

// Halves go away from zero. The fraction is exact, which x + 0.5 is not.
void import_round(NodeImportCall& call) {
  require_float(call, 0);
  ir::Value *x = call.operand(0), *whole = call.op("trunc", {x});
  ir::Value* fraction = call.op("abs", {call.op("sub", {x, whole})});
  ir::Value* is_half = call.op("greater_equal", {fraction, number_like(call, x, 0.5)});
  ir::Value* next = call.op("add", {whole, call.op("sign", {x})});
  call.set_result(0, flat(call, x, call.op("where", {is_half, next, whole})));
}

void import_nearby_int(NodeImportCall& call) {
  require_float(call, 0);
  ir::Value* x = call.operand(0);
  call.set_result(0, flat(call, x, call.op("round", {x})));
}

// Integers take the whole part of the factor.
void import_scale(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const bool is_whole = is_integer(x->type().dtype);
  if (!is_whole) require_float(call, 0);
  const double scale = call.real("scale");
  call.set_result(0, call.op("mul", {x, number_like(call, x, is_whole ? std::trunc(scale) : scale)}));
}

// scale0 * T0 + scale1 * T1; the factors are attributes, or scalar operands 2 and 3.
void import_scaled_add(NodeImportCall& call) {
  require_float(call, 0);
  require_equal_dtypes(call, 0, 1);
  ir::Value *a = call.operand(0), *b = call.operand(1);
  if (a->type().shape != b->type().shape)
    node_shape_error(call, fmt::format("adds {} and {}, and nothing is broadcast", to_string(a->type().shape),
                                       to_string(b->type().shape)));
  const double scale0 = call.real("scale0", 1.0), scale1 = call.real("scale1", 1.0);
  const auto factor = [&](int i) {
    ir::Value* value = call.operand(i);
    if (value->type().elements() != 1)
      node_shape_error(call, fmt::format("has {} as operand {}; a factor is one number",
                                         to_string(value->type().shape), i));
    return reshaped(call, call.cast(value, a->type().dtype), {});
  };
  if (call.has_operand(2) && !call.has_operand(3))
    node_attribute_error(call, "has a tensor as scale0 and none as scale1; give both, or scale1 alone");
  if (call.has_operand(3)) {
    if (!call.has_operand(2) && scale0 != 1.0)
      node_attribute_error(
          call, fmt::format("has a tensor as scale1 and scale0={:g}; scale0 must be 1 then", scale0));
    if (call.has_operand(2)) a = call.op("mul", {a, factor(2)});
    return call.set_result(0, call.op("add", {a, call.op("mul", {b, factor(3)})}));
  }
  const auto scaled = [&](ir::Value* x, double by) {
    return by == 1.0 ? x : call.op("mul", {x, number_like(call, x, by)});
  };
  call.set_result(0, call.op("add", {scaled(a, scale0), scaled(b, scale1)}));
}

// The sign of x + increment. Integers take the whole parts of increment and modulus.
void import_increment_mod(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const auto number = [&](const char* name) {
    const double value = call.real(name);
    return number_like(call, x, is_floating_point(x->type().dtype) ? value : std::trunc(value));
  };
  ir::Value* y = call.op("fmod", {call.op("add", {x, number("increment")}), number("modulus")});
  call.set_result(0, call.op("detach", {y}));
}

// First channels of the last dimension: (scale * image - offset) * factor; the fourth is 0.
void import_normalize_image(NodeImportCall& call) {
  ir::Value* image = call.operand(0);
  const Shape shape = image->type().shape;
  if (shape.empty() || shape.back() != 3)
    node_shape_error(call, fmt::format("of {}; the last dimension is that of 3 channels", to_string(shape)));
  for (const int i : {1, 2})
    if (call.operand(i)->type().shape != Shape{3})
      node_shape_error(call, fmt::format("has {} as operand {}; offsets and scales are of shape [3]",
                                         to_string(call.operand(i)->type().shape), i));
  if (image->type().dtype == DType::kU8) {
    image = call.cast(image, DType::kF16);
  } else {
    require_float(call, 0);
  }
  const DType dtype = image->type().dtype;
  ir::Value* y = call.op("mul", {image, number_like(call, image, call.real("scale", 1.0))});
  y = call.op("sub", {y, call.cast(call.operand(1), dtype)});
  y = call.op("mul", {y, call.cast(call.operand(2), dtype)});
  std::vector<int64_t> none(shape.size(), 0), high(none);
  high.back() = 1;
  y = call.op("pad", {y}, {{"low", none}, {"high", high}, {"value", 0.0}});
  call.set_result(0, call.op("detach", {y}));
}

struct ArithmeticGraphcoreImporters {
  ArithmeticGraphcoreImporters() {
    register_graphcore_importer({"Fmod", "fmod", "a:SHORT b:SHORT", "out~:SHORT", "yes", "",
                                 "The remainder with the sign of the dividend; broadcast."},
                                import_fmod);
    register_graphcore_importer({"Remainder", "remainder", "a:SHORT b:SHORT", "out~:SHORT", "yes", "",
                                 "The remainder with the sign of the divisor; broadcast."},
                                import_remainder);
    register_graphcore_importer(
        {"Round", "round", "x:F", "y=:F", "zero", "", "The nearest whole number, halves away from zero."},
        import_round);
    register_graphcore_importer(
        {"NearbyInt", "nearbyint", "x:F", "y=:F", "zero", "", "The nearest whole number, halves to even."},
        import_nearby_int);
    register_graphcore_importer({"Scale", "scale", "x:FLOAT", "y=:FLOAT", "yes", "scale:float", "scale * x."},
                                import_scale);
    register_graphcore_importer({"ScaledAdd", "scaledadd", "a:F b:F scale0?:F scale1?:F", "y=:F", "yes",
                                 "scale0:float=1.0, scale1:float=1.0", "scale0 * T0 + scale1 * T1."},
                                import_scaled_add);
    register_graphcore_importer({"IncrementMod", "incrementmod", "x:I+F", "y=:I+F", "none",
                                 "increment:float, modulus:float", "(x + increment) mod modulus."},
                                import_increment_mod);
    register_graphcore_importer(
        {"NormalizeImage", "normalize_image", "image:UINT8+F offsets:F scales:F", "y:F", "none",
         "scale:float=1.0",
         "[image, offsets, scales]: channels-last images normalised, with a fourth channel of zeros."},
        import_normalize_image);
  }
};
const ArithmeticGraphcoreImporters arithmetic_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
