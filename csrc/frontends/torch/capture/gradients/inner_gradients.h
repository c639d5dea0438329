// Gradients that forward() itself takes, and functions that bring their own backward pass. Nothing of torch's
// autograd runs: the captured graph is differentiated where it stands, by the rules that training uses, and a
// custom backward pass is captured once with stand-ins for the incoming gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Capture;
class Memory;

class InnerGradients {
 public:
  explicit InnerGradients(Capture& capture) : capture_(capture) {}

  // Captures the gradients of `inputs` from those of `outputs` (undefined: ones are the caller's business);
  // an undefined tensor where nothing depends on an input. They carry gradients themselves when
  // `create_graph`.
  std::vector<at::Tensor> of(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& upstream,
                             const std::vector<at::Tensor>& inputs, bool create_graph);
  // Stand-ins for the gradients of `results`; what is captured until end_custom() is a backward pass.
  std::vector<at::Tensor> begin_custom(const std::vector<at::Tensor>& results);
  // `results` again, with the captured pass as their gradient: `of[i]` (undefined: none) is that of
  // arguments[i].
  std::vector<at::Tensor> end_custom(const std::vector<at::Tensor>& results,
                                     const std::vector<at::Tensor>& arguments,
                                     const std::vector<at::Tensor>& of);

 private:
  Memory& memory();
  ir::Builder& builder();
  ir::Graph* graph();
  ir::Value* value_for_gradient(const at::Tensor& gradient, const at::Tensor& of);

  Capture& capture_;
  std::vector<ir::Op*> stand_ins_;  // of the passes being captured, innermost last
};

}  // namespace ipu::frontends::torch_frontend
