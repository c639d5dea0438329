// Autograd is excluded during capture, so that operators stay whole; a dummy grad_fn keeps what programs look
// at (requires_grad, is_leaf, hooks) as in eager mode, and turns backward() inside forward into our error.
#pragma once

#include <ATen/core/Tensor.h>

namespace ipu::frontends::torch_frontend {

// Gives `result` the dummy node when grad mode is on, it is floating and an input requires a gradient (`always`: or
// might do so).
void attach_gradient(at::ArrayRef<at::Tensor> inputs, const at::Tensor& result, bool always = false);

}  // namespace ipu::frontends::torch_frontend
