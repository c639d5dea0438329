// Which f16 expressions are f16 values already, so that a rounding after them would change nothing.
#pragma once

#include "ops/expression/expr.h"

namespace ipu::ops {

// Loads and casts are; so is what only picks, negates or cuts such values.
bool is_rounded_f16(const Expr& expr);

}  // namespace ipu::ops
