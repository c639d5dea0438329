// Leaves of torch's gradients: a tensor that requires one and was made by no operator. Such a tensor reads as a
// value of its own, so that gradients inside forward stop there and are found.
#pragma once

#include <vector>

#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Leaves {
 public:
  explicit Leaves(ir::Builder& builder) : builder_(builder) {}

  // What leaf `t`, whose memory holds `value`, reads as.
  ir::Value* read(const at::Tensor& t, IpuTensorImpl& impl, ir::Value* value);
  const std::vector<at::Tensor>& in_order_of_use() const { return tensors_; }

 private:
  ir::Builder& builder_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace ipu::frontends::torch_frontend
