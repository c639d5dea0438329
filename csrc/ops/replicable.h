// Where an op is computed when nothing forces it to a place: the one answer that capture of stages, placement,
// recomputation, copies between IPUs, pipelines and lowering share.
//
// Replicable: computed again wherever a result is read (in each stage, on each IPU), because that is cheaper
// than any transport. Rule: constants, replica_index, and ops whose operands are all replicable, that have no
// effects, draw no random numbers and are not expensive, and whose results are scalars (no dimensions); of
// larger results only those spread from a scalar or counted out (expand, iota). A loop's index counts as
// replicable in its body: every IPU counts for itself.
//
// With its users: an op that reads nothing, or scalar constants only, has nothing to say about where it stands
// (a load from the host, a filled tensor). It takes the place of its first user. Regions, ops on variables and
// ops without results have places of their own.
#pragma once

#include <unordered_set>

#include "ir/module.h"

namespace ipu::ops {

// Whether the results are replicable once the operands are.
bool is_replicable(const ir::Op& op);

// The replicable values of one graph. Input `index` (nullptr: none) counts as such. Linear in the graph.
std::unordered_set<const ir::Value*> find_replicable(const ir::Graph& graph, const ir::Value* index);

bool stands_with_users(const ir::Op& op);

}  // namespace ipu::ops
