// What importers and compounds outside the reductions need of them.
#pragma once

#include "ops/definition/rule_support.h"

namespace ipu::ops {

// The p-norm over `dims` (ascending; p may be 0 or infinite), with torch's zero gradient at zero.
ir::Value* vector_norm(ir::Builder& builder, ir::Value* x, double p, const std::vector<int64_t>& dims,
                       bool keep);

// max + log(sum(exp(x - max))) over `dims`, which stay as size 1; an infinite maximum is left out of the shift.
// No gradient flows through the shift.
ir::Value* log_sum_exp(ImportCall& call, ir::Value* x, const std::vector<int64_t>& dims);

}  // namespace ipu::ops
