// What importers of normalisations share: statistics over dimensions, composed of reductions and elementwise
// ops, whose gradients are right by construction.
#pragma once

#include "ops/definition/rule_support.h"

namespace ipu::ops {

// Halves are normalised in f32 and rounded once: their squares would overflow.
ir::Value* widened(ImportCall& call, ir::Value* x);

// Mean and biased variance over dims, kept as size 1, and x without its mean.
struct Statistics {
  ir::Value *mean, *variance, *centered;
};
Statistics statistics(ImportCall& call, ir::Value* x, const std::vector<int64_t>& dims);

// 1 / sqrt(variance + eps).
ir::Value* inverse_deviation(ImportCall& call, ir::Value* variance, double eps);

// [1, C, 1, ...]: how a value per channel of x broadcasts.
Shape per_channel(const Shape& x);

}  // namespace ipu::ops
