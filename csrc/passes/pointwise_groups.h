// Joins elementwise ops of one shape that feed each other into one op, so that what flows between them never
// reaches memory. Groups grow in program order: an op joins the groups of its operands unless something
// outside lies between them (it would have to run both after and before the group). Only values that are read
// outside of the group are results. Leaves alone: ops of another shape, IPU, stage or layout, random ops,
// control scalars, and groups of one. The dependence of a value on groups is kept for the 64 youngest groups;
// older ones take no more members.
#pragma once

#include <functional>

#include "passes/effects.h"
#include "passes/pass.h"

namespace ipu::passes {

using MayJoin = std::function<bool(const ir::Op&)>;

// Counts "ops fused" and "groups"; says whether there were any. `may_join`: which ops, if not all.
bool join_pointwise(ir::Graph& graph, const Effects& effects, const PassContext& context,
                    const MayJoin& may_join = nullptr);

}  // namespace ipu::passes
