// Rewrites of graphs that programs ask for by name.
#pragma once

#include <vector>

#include "frontends/popxl/program.h"

namespace ipu::popxl {

// Each Sum of more than two becomes a zero Init and a chain of Adds, in the order in which the addends can be made.
void decompose_sums(Graph& graph);

// Merges the ops of `ops` that move data to or from the host or streaming memory. Each group that no operand or
// ordering edge forces apart becomes one MultiExchange; ordering edges within it are removed. Returns the new ops.
std::vector<Op*> merge_exchange(Graph& graph, const std::vector<Op*>& ops);

// Ops go whose outputs nothing reads, and that do nothing else.
void prune(Graph& graph);

}  // namespace ipu::popxl
