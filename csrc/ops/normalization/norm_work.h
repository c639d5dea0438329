// Normalisations as work on the tiles: as the vendor's library makes layer, group, instance and batch norms of reductions and passes.
#pragma once

#include "ops/definition/work.h"

namespace ipu::ops {

// (x - mean) / sqrt(variance + eps) * weight + bias; the means are result 1.
std::vector<target::Work> norm_work(const ir::Op& op);
// Its gradient, whose operand 0 is x; `means`: the operand that was saved of them.
WorkRule norm_gradient_work(int means);

}  // namespace ipu::ops
