// Gradients as part of a forward pass: torch.autograd.grad and backward() inside forward, and functions that
// bring their own backward pass. The reverse sweep is that of differentiate.h; its ops go into the same
// graph.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace ipu::autodiff {

// Appends to the end of the graph what gives the gradients of the arguments of custom gradient `op` (nullptr:
// none) from those of its results (nullptr: none).
using CustomPass = std::function<std::vector<ir::Value*>(const ir::Op& op, const std::vector<ir::Value*>&)>;

// Appends to the builder's graph, with the builder's settings, what computes the gradients of `required` (any
// values of the graph) from those of `provided` (value, gradient). nullptr: nothing depends on that value.
// `pass` is asked at each custom gradient of the graph itself; without it their graphs are called.
// `through_integers`: as of DifferentiateOptions. Errors as differentiate().
std::vector<ir::Value*> gradients_in_graph(ir::Builder& builder,
                                           const std::vector<std::pair<ir::Value*, ir::Value*>>& provided,
                                           const std::vector<ir::Value*>& required,
                                           const CustomPass& pass = nullptr, bool through_integers = false);

// The custom gradients that have no graph yet and that a gradient of `value` reaches, the last one first.
std::vector<ir::Op*> custom_gradients_behind(const ir::Graph& graph, const ir::Value* value);

// custom_gradient(results..., arguments..., extras...) {arguments = n, gradient = "graph", of = [...]} stands
// for its first operands. Its gradient is a call of that graph with the gradients of the results and the
// extras, which gives those of the arguments numbered in `of`. Without `gradient` it has none: an error where
// one is needed, which names `function` and `refusal`. None is left after drop_custom_gradients().
inline constexpr std::string_view kCustomGradient = "custom_gradient";
void drop_custom_gradients(ir::Graph& graph);
// Is operand i of `op` one that its gradient goes to?
bool takes_gradient(const ir::Op& op, int i);

}  // namespace ipu::autodiff
