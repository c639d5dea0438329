// What the normalisations share: statistics over dimensions, weights, and the pieces of type rules. Halves are
// normalised in f32 and rounded once: their squares would overflow.
#pragma once

#include <string_view>

#include "ops/definition/composer.h"
#include "ops/definition/node_support.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {

inline DType normalized_in(DType dtype) { return dtype == DType::kF16 ? DType::kF32 : dtype; }
std::vector<int64_t> dims_from(size_t first, size_t rank);  // first, first + 1, ..., rank - 1
// [1, C, 1, ...]: how a value per channel of x broadcasts.
Shape per_channel(const Shape& x);

// --- parts

ir::Value* widened(Composer& c, ir::Value* x);
// Mean and biased variance over dims, kept as size 1, and x without its mean.
struct Statistics {
  ir::Value *mean, *variance, *centered;
};
Statistics statistics(Composer& c, ir::Value* x, const std::vector<int64_t>& dims);
ir::Value* inverse_deviation(Composer& c, ir::Value* variance, double eps);  // 1 / sqrt(variance + eps)
// Operand i in another shape: it takes the dtype of x (operand 0), then that of the computation.
ir::Value* weight_of(Composer& c, int i, const Shape& shape);
// y * operand `weight` + operand `weight + 1`, each optional and reshaped to `shape` first, in the dtype of x.
ir::Value* affine(Composer& c, ir::Value* y, int weight, const Shape& shape);

// --- type rules

int64_t channels_of(const InferContext& c);  // of x [N, C, ...]
// Operand i, if given, has one element per channel of x.
void require_per_channel(const InferContext& c, int i, std::string_view name);
// Mean or variance of x over dims.
ir::Type statistic_type(const ir::Type& x, const std::vector<int64_t>& dims);

// --- importers

// Operand `name` of torch's call or nullptr; "weight" and "bias" of most.
inline ir::Value* optional(AtenImportCall& call, std::string_view name) { return call.optional_tensor(name); }

}  // namespace ipu::ops
