// How forward values reach a finished gradient graph, whose forward inputs are so far just inputs.
#pragma once

#include <unordered_set>

#include "autodiff/differentiate.h"

namespace ipu::autodiff {

using GrownGraphs = std::unordered_set<const ir::Graph*>;

// Makes every forward value the gradient graph expects an input or output of `graph`; says whether outputs were
// appended. Its call sites lack the new results until complete_call_sites.
bool append_missing_outputs(ir::Graph& graph, const GradInfo& info);

// Call sites of `grown` get the results they lack; IPU_CHECK: no other region runs one of them.
void complete_call_sites(ir::Module& module, const GrownGraphs& grown);

// Computes the expected intermediate values anew at the start of the gradient graph, from inputs of `graph`
// only; `info` then expects no intermediate.
void recompute_forward_values(const ir::Graph& graph, GradInfo& info);

}  // namespace ipu::autodiff
