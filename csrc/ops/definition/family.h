// Shared builders of the elementwise families: shapes of samples, importers and gradients that many ops have
// in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/definition/aten_import_call.h"
#include "ops/definition/gradient_builder.h"
#include "ops/definition/op_def.h"
#include "ops/definition/sample_types.h"

namespace ipu::ops {

// i8 and u8 excluded: the reference back end refuses them in bitwise arithmetic.
inline constexpr DTypeSet kBitwise =
    kBoolean | bit(DType::kI32) | bit(DType::kU32) | bit(DType::kI16) | bit(DType::kU16);

// x of f32 and f16, an empty tensor and a scalar; values from [low, high].
std::vector<Sample> unary_samples(double low = -3.0, double high = 3.0, Attributes attributes = {});
// Pairs of equal and broadcast shapes in f32, one of f16; values from [low, high].
std::vector<Sample> binary_samples(double low = -3.0, double high = 3.0);
// i32 pairs with small values; the second operand is never zero when `nonzero`.
std::vector<Sample> integer_samples(bool nonzero = false);

// y = f(x). `gradient` makes dx from dy; it may read g.operand(0) and g.result().
OpDefBuilder unary_op(std::string name, std::string family, std::string doc, Func func, DTypeSet dtypes);
std::function<void(GradientBuilder&)> unary_gradient(
    std::function<ir::Value*(GradientBuilder&, ir::Value* dy)> rule);

// The gradient of an activation as one op: operands (x or y, dy).
OpDefBuilder activation_gradient_op(std::string name, std::string first, std::string doc,
                                    std::function<Expr(Expr first, Expr dy, const Attributes&)> tree);

// Importer of op(self, other): both are converted to the dtype of torch's result.
std::function<void(AtenImportCall&)> import_binary(std::string kind);

}  // namespace ipu::ops
