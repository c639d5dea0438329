// An elementwise op as one op for each node of its expression: what is differentiated where the op has no rule
// of its own (OpDefBuilder::gradient_by_expression). It still runs as one.
#pragma once

#include <vector>

#include "ir/module.h"

namespace ipu::ops {

// Builds the ops before `op`, halves in f32, and returns what stands for its results.
std::vector<ir::Value*> parts_of_expression(ir::Op& op);

}  // namespace ipu::ops
