// Shapes, strides and element types of results: C++ rules for the operators models are made of, torch's own
// Meta kernels for the rest (which cost up to 240 µs a call where they are written in Python).
#pragma once

#include <ATen/core/stack.h>

#include <vector>

#include "frontends/torch/capture/operators/op_info.h"
#include "frontends/torch/capture/operators/tensor_meta.h"

namespace ipu::frontends::torch_frontend {

struct InferredResults {
  std::vector<TensorMeta> tensors;  // flattened over Tensor and Tensor[] returns
  // Per return: number of tensors of a Tensor[] return; -1 a single tensor; -2 an undefined tensor.
  std::vector<int> layout;
};

// Throws what torch's Meta kernel throws; Error(kValueNeeded) when a return is not a tensor.
InferredResults infer_results(const OpInfo& info, at::ArrayRef<c10::IValue> arguments);

}  // namespace ipu::frontends::torch_frontend
