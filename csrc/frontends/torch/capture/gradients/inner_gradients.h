// Gradients that forward() itself takes. Nothing of torch's autograd runs: the captured graph is differentiated
// where it stands, by the rules that training uses.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "frontends/torch/capture/gradients/custom_passes.h"
#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Capture;
class Memory;

class InnerGradients {
 public:
  explicit InnerGradients(Capture& capture) : capture_(capture), passes_(capture) {}

  CustomPasses& passes() { return passes_; }
  // Captures the gradients of `inputs` from those of `outputs` (undefined: ones are the caller's business);
  // an undefined tensor where nothing depends on an input. They carry gradients themselves when
  // `create_graph`. A loss among `outputs` may still be the one that training is about when `keep_graph`.
  std::vector<at::Tensor> of(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& upstream,
                             const std::vector<at::Tensor>& inputs, bool create_graph, bool keep_graph,
                             const CustomPasses::Backward& backward);

 private:
  Memory& memory();
  ir::Builder& builder();

  Capture& capture_;
  CustomPasses passes_;
};

}  // namespace ipu::frontends::torch_frontend
