// Gradients as part of a forward pass: torch.autograd.grad and backward() inside forward, and functions that
// bring their own backward pass. The reverse sweep is that of differentiate.h; its ops go into the same
// graph.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace ipu::autodiff {

// Appends to the builder's graph, with the builder's settings, what computes the gradients of `required` (any
// values of the graph) from those of `provided` (value, gradient). nullptr: nothing depends on that value.
// Errors as differentiate().
std::vector<ir::Value*> gradients_in_graph(ir::Builder& builder,
                                           const std::vector<std::pair<ir::Value*, ir::Value*>>& provided,
                                           const std::vector<ir::Value*>& required);

// custom_gradient(results..., arguments..., extras...) {arguments = n, gradient = "graph", of = [...]} stands
// for its first operands. Its gradient is a call of that graph with the gradients of the results and the
// extras, which gives those of the arguments numbered in `of`. None is left after drop_custom_gradients().
inline constexpr std::string_view kCustomGradient = "custom_gradient";
void drop_custom_gradients(ir::Graph& graph);
// Is operand i of `op` one that its gradient goes to?
bool takes_gradient(const ir::Op& op, int i);

}  // namespace ipu::autodiff
