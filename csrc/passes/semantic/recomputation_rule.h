// Which forward ops a mode marks as not kept for the backward pass (docs/recomputation.md): PopART's rules. The ops of one
// operator of a model, whose front end names it (ir/node_marks.h), are marked together. Not here: which of the marked
// ops the backward pass needs (recomputation_plan).
#pragma once

#include <unordered_set>

#include "ir/strategy.h"

namespace ipu::passes {

// Ops of `graph`, which is the body of a pipeline or has the whole of both passes.
std::unordered_set<ir::Op*> find_marked(const ir::Graph& graph, const ir::Strategy& strategy,
                                        bool is_pipeline);

// Whether an op says itself that it is made again.
bool asks_for_recomputation(const ir::Module& module);

}  // namespace ipu::passes
