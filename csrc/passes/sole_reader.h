// What lies between an op and the one that made its operand: whether the second may take in the first.
#pragma once

#include "ir/module.h"

namespace ipu::passes {

// Both run on one IPU, in one stage, phase and block, on the same tiles, and both are recomputed or neither.
bool run_together(const ir::Op& a, const ir::Op& b);

// The op that makes operand i, if `op` alone reads that, where and when its maker runs; nullptr otherwise.
ir::Op* made_for(const ir::Op& op, int i);

}  // namespace ipu::passes
