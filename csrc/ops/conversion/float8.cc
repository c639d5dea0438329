// Conversions from and to 8-bit floats, scaled by a power of two.
#include "support/float8.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/effects.h"
#include "ops/definition/family.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

constexpr DTypeSet kFloat8 = bit(DType::kF8_143) | bit(DType::kF8_152);
constexpr DTypeSet kWide = bit(DType::kF32) | bit(DType::kF16);

std::vector<ir::Type> infer(const InferContext& c, DTypeSet targets) {
  const DType dtype = c.attributes.dtype("dtype");
  if ((bit(dtype) & targets) == 0) dtype_error(fmt::format("no conversion to {}", to_string(dtype)));
  if (c.has(1) && c.operand(1).elements() != 1)
    shape_error(fmt::format("the scale has {} elements; it is one", c.operand(1).elements()));
  return {{dtype, c.operand(0).shape}};
}

// Products take 8-bit floats as they are.
bool is_of_products(const ir::Value* value) {
  return !value->uses().empty() && std::ranges::all_of(value->uses(), [](const ir::Use& use) {
    return view_rule(*use.user) != nullptr ? is_of_products(use.user->result())
                                           : multiplies_float8(*use.user);
  });
}

double scale_of(const ReferenceCall& call) {
  if (!call.has(1)) return 0.0;
  const double scale = call.operand(1).values[0];
  if (scale < -32 || scale >= 32)
    throw Error(
        ErrorCode::kExecution,
        fmt::format("index out of range: index {} (element 0 of 'log2_scale') is not in [-32, 32).", scale));
  return scale;
}

// Rounding to the result's type is the caller's.
void scaled(ReferenceCall& call) {
  const double factor = std::exp2(scale_of(call));
  for (size_t i = 0; i < call.operand(0).values.size(); ++i)
    call.result().values[i] = call.operand(0).values[i] * factor;
}

ir::Type of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }

const OpRegistration to_float8 =
    define_op("to_float8", "conversion")
        .doc(
            "x * 2^log2_scale as an 8-bit float, rounded to nearest, ties to even; NaN where it is too large. A scale "
            "outside [-32, 32) is an error of the run.")
        .operand("x", kWide)
        .optional_operand("log2_scale", bit(DType::kI32))
        .attribute("dtype")
        .result("y")
        .infer([](const InferContext& c) { return infer(c, kFloat8); })
        .gradient_refused("values between two 8-bit floats do not change the result")
        .reference(scaled)
        .kernel("to_float8")
        .work(one_pass({"cast"}))
        .samples({{{of(DType::kF32, {2, 9}), of(DType::kI32, {})},
                   {{"dtype", DType::kF8_143}},
                   -9,
                   9,
                   {{1, {-3, 3}}}},
                  {{of(DType::kF16, {7}), of(DType::kI32, {})},
                   {{"dtype", DType::kF8_152}},
                   -9,
                   9,
                   {{1, {-3, 3}}}}});

const OpRegistration from_float8 =
    define_op("from_float8", "conversion")
        .doc(
            "An 8-bit float as another type, times 2^log2_scale. A scale outside [-32, 32) is an error of the run.")
        .operand("x", kFloat8)
        .optional_operand("log2_scale", bit(DType::kI32))
        .attribute("dtype")
        .result("y")
        .infer([](const InferContext& c) { return infer(c, kWide); })
        .gradient_refused("8-bit floats have no gradients")
        .reference(scaled)
        .kernel("from_float8")
        .work([](const ir::Op& op) {
          return is_of_products(op.result()) ? std::vector<target::Work>() : one_pass({"cast"})(op);
        })
        .samples({{{of(DType::kF8_143, {2, 9}), of(DType::kI32, {})},
                   {{"dtype", DType::kF32}},
                   -9,
                   9,
                   {{1, {-3, 3}}}},
                  {{of(DType::kF8_152, {7}), of(DType::kI32, {})},
                   {{"dtype", DType::kF16}},
                   -9,
                   9,
                   {{1, {-3, 3}}}}});

}  // namespace
}  // namespace ipu::ops
