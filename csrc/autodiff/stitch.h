// How forward values reach a finished gradient graph, whose forward inputs are so far just inputs.
#pragma once

#include "autodiff/differentiate.h"

namespace ipu::autodiff {

// Makes every forward value the gradient graph expects an input or output of `graph`; all call sites of
// `graph` get the new results.
void append_missing_outputs(ir::Graph& graph, const GradInfo& info);

// Computes the expected intermediate values anew at the start of the gradient graph, from inputs of `graph`
// only; `info` then expects no intermediate.
void recompute_forward_values(const ir::Graph& graph, GradInfo& info);

}  // namespace ipu::autodiff
