// Softmax as work on the tiles: reductions and passes over lines.
#pragma once

#include "ops/definition/work.h"

namespace ipu::ops {

// Of x in `lines` lines: the largest element of each, exponentials of the distance to it, their sums, and shares of these.
std::vector<target::Work> softmax_work(const ir::Type& x, int64_t lines);
std::vector<target::Work> softmax_gradient_work(const ir::Type& x, int64_t lines);

}  // namespace ipu::ops
