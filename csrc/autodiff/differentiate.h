// Reverse-mode differentiation of a functional graph, called graphs included. One function with three kinds
// of callers: trainingModel, PopART's TrainingSession, popxl.transforms.autodiff.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace ipu::autodiff {

enum class ConnectionKind : uint8_t {
  kForward,   // a forward value (input, intermediate or output) handed to the gradient graph
  kGradient,  // the gradient of a forward value
};
struct Connection {
  ConnectionKind kind;
  ir::Value* forward;  // value of the forward graph
};

struct GradInfo {
  ir::Graph* graph = nullptr;                // the gradient graph
  std::vector<Connection> expected_inputs;   // in order of graph->inputs()
  std::vector<Connection> expected_outputs;  // in order of graph->outputs(); kGradient of forward inputs
  // Every forward value that has a gradient in `graph` itself, with it: the sum over the readers of the value. Not those
  // inside of graphs that it calls.
  std::vector<std::pair<ir::Value*, ir::Value*>> gradients;
};

// How forward intermediates reach the gradient graph.
enum class Stitch : uint8_t {
  kAppendOutputs,  // append them to the forward graph's outputs and patch its call sites
  kRecompute,      // clone the ops that make them into the gradient graph
};

struct DifferentiateOptions {
  // Forward outputs whose gradient is given (empty: all floating outputs) and forward values whose gradient
  // is wanted (empty: all floating inputs).
  std::vector<ir::Value*> provided, required;
  bool through_integers = false;  // integers have gradients, of their own type, as in PopART
  std::map<const ir::Graph*, GradInfo>
      callee_infos;  // gradients already made; reused, and extended with new ones
  Stitch stitch = Stitch::kAppendOutputs;
};

// Whether a value of `dtype` may have a gradient.
inline bool carries_gradient(DType dtype, bool through_integers) {
  return is_floating_point(dtype) || (through_integers && dtype != DType::kBool);
}

// Appends the gradient graph to the module. Gradient ops carry the location, block, ipu and module path of
// their forward op with context = backward. Sums of gradients are one n-ary `add_n` each. Forward ops marked
// no_grad, and `detach`, stop gradients. Bodies of loops and ifs are recomputed in the gradient graph; a loop
// keeps what entered each trip (autodiff/regions.h). Throws Error(kNotDifferentiable) with the user's line when
// a required gradient passes an op without a rule, a refused one, or an integer path. A required input that no
// provided output depends on gets a zero gradient.
GradInfo differentiate(ir::Graph& graph, DifferentiateOptions& options);

}  // namespace ipu::autodiff
