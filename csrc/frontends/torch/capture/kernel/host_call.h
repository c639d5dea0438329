// Calls that are not captured: on the host memory behind ipu tensors, on CPU tensors, or on the shapes of fake
// tensors.
#pragma once

#include <ATen/core/stack.h>

#include "frontends/torch/capture/operators/op_info.h"

namespace ipu::frontends::torch_frontend {

// The CPU tensor behind an ipu tensor; other tensors as they are.
at::Tensor host_of(const at::Tensor& t);

// Arguments of `info` on top of the stack become its results.
// Runs on the host: ipu tensors become the CPU tensors behind them, results are wrapped.
void run_on_host(const OpInfo& info, torch::jit::Stack* stack);
void forward_to_cpu(const OpInfo& info, torch::jit::Stack* stack);
// Fake tensors on our device wrap plain meta tensors: hands on what Meta says, unwrapped.
void forward_to_meta(const OpInfo& info, torch::jit::Stack* stack);

}  // namespace ipu::frontends::torch_frontend
