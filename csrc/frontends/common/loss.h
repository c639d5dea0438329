// Losses of captured graphs. find_final_loss is in step_builder.h.
#pragma once

#include <unordered_set>

#include "ir/module.h"

namespace ipu::frontends {

// Values of the graph on which `loss` depends along a path that carries gradients.
std::unordered_set<const ir::Value*> reached_by_gradient(const ir::Graph& graph, const ir::Value* loss);

}  // namespace ipu::frontends
