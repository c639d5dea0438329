// Products and convolutions of float8: exact values, and a power of two that the result is multiplied with.
#pragma once

#include <string>

#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {

// Input i, a log2_scale, for an op that checks it. Where the program does not check scales: the nearest valid one.
ir::Value* scale_of(LowerCall& call, int i);

// Operands 0 and 1 of an op with a scale, in f32; the first one has the scale, input 2, in it. Others as they are.
struct Factors {
  ir::Value *a, *b;
};
Factors factors_of(LowerCall& call);
// The product of the factors as the op gives it: f16 where there is a scale.
ir::Value* product_of_factors(LowerCall& call, ir::Value* product);
// Why an op with a scale has no gradient; "" without one.
std::string is_of_float8(const Op& op);

}  // namespace ipu::popxl
