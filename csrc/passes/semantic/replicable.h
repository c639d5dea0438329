// Ops that are computed again wherever they are needed, because that is cheaper than any transport:
// constants, what is spread from them, and scalars that follow from constants and loop indices alone.
#pragma once

#include <unordered_set>

#include "ir/module.h"

namespace ipu::passes {

// Values of one graph that every stage and IPU may compute for itself. Input `index` (nullptr: none) counts
// as known everywhere. Linear in the graph.
std::unordered_set<const ir::Value*> find_replicable(const ir::Graph& graph, const ir::Value* index);

// A copy of `op` before `before` (nullptr: at the end of `graph`) on the given operands; results keep their
// names as hints.
ir::Op* clone_onto(const ir::Op& op, const std::vector<ir::Value*>& operands, ir::Graph& graph,
                   ir::Op* before);

}  // namespace ipu::passes
