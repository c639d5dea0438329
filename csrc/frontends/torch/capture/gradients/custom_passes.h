// Calls of functions that bring their own backward pass (torch.autograd.Function). Each is a custom_gradient in
// the graph. A gradient in forward that reaches one runs its backward there and then, on the gradients at hand;
// for the gradients of training the pass is captured once, at the end of forward, with stand-ins for the incoming
// gradients, and becomes a graph of its own. What no gradient reaches is never run.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "autodiff/in_graph.h"
#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Capture;

// `gradient` in the shape and type of the tensor it is the gradient of, as torch takes it.
ir::Value* value_for_gradient(Capture& capture, const at::Tensor& gradient, const at::Tensor& of);

class CustomPasses {
 public:
  // Runs the backward of call `number` on the gradients of its results (undefined: none came), and gives those of
  // its arguments (undefined: none).
  using Backward =
      std::function<std::vector<at::Tensor>(int64_t number, const std::vector<at::Tensor>& upstream)>;

  explicit CustomPasses(Capture& capture) : capture_(capture) {}

  // A call of `function` that gave `results`: these again, whose gradients are the function's business.
  std::vector<at::Tensor> add(const std::string& function, const std::vector<at::Tensor>& results,
                              const std::vector<at::Tensor>& arguments);
  // `backward` as what the core asks for gradients in forward.
  autodiff::CustomPass inside_forward(const Backward& backward);

  // The calls whose passes training needs, the last one first.
  std::vector<int64_t> needed_for_training() const;
  // Stand-ins for the gradients of the results of call `number`; what is captured until end() or abandon() is its
  // pass.
  std::vector<at::Tensor> begin(int64_t number);
  // `gradients[i]` (undefined: none) is that of argument i. The pass also gives gradients to `parameters`, which
  // are no arguments.
  void end(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& parameters,
           const std::vector<at::Tensor>& of_parameters);
  void abandon();
  // The pass of call `number` cannot be captured, for this reason: an error where a gradient needs it.
  void refuse(int64_t number, const std::string& reason);

  // `parameters` get these gradients on top of those of the final loss; without one they are all there is to
  // train on. Errors as find_final_loss().
  void add_to_training(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);

 private:
  struct Call {
    ir::Op* op = nullptr;
    std::vector<at::Tensor> results, arguments;
  };
  struct Open {
    int64_t number = 0;
    ir::Op* stand_in = nullptr;
  };
  void close();
  ir::Graph* graph_of(const Call& call, const ir::Op& stand_in, const std::vector<ir::Value*>& outputs,
                      std::vector<ir::Value*>& read);

  Capture& capture_;
  std::vector<Call> calls_;
  std::vector<Open> open_;  // innermost last
};

}  // namespace ipu::frontends::torch_frontend
