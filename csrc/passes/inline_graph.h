// Puts a copy of a graph's ops in the place of the op that calls it. The act behind inline-calls and
// inline-single-trip-loops.
#pragma once

#include <vector>

#include "ir/module.h"

namespace ipu::passes {

// Copies the ops of `callee` before `site`, reading `arguments` for its inputs; returns what stands for its
// outputs. Copies keep their settings, location and names (made unique); what they leave open (ipu, stage,
// phase, block, location) they take from `site`. Linear in the callee.
std::vector<ir::Value*> inline_before(ir::Op& site, const ir::Graph& callee,
                                      const std::vector<ir::Value*>& arguments);

// The same for a graph that goes, called by `site` alone: its ops move instead. Without order edges.
std::vector<ir::Value*> move_before(ir::Op& site, ir::Graph& callee,
                                    const std::vector<ir::Value*>& arguments);

// Readers of the op's results read `values` from now on; the op goes.
void replace_op(ir::Op& op, const std::vector<ir::Value*>& values);

}  // namespace ipu::passes
