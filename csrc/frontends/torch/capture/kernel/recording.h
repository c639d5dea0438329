// From a call with values of the graph to operations of it: shapes are inferred, the importer builds, and
// results are tensors over the new values; what an operator writes in place is written to their memory.
#pragma once

#include <ATen/core/stack.h>

#include "frontends/torch/capture/capture.h"

namespace ipu::frontends::torch_frontend {

// Arguments of `info` on top of the stack become its results.
void record(Capture& capture, const OpInfo& info, torch::jit::Stack* stack);

// t_, squeeze_, transpose_: the tensor becomes another view of its memory.
void move_view(const OpInfo& info, torch::jit::Stack* stack);

// Casts and broadcasts `value` to what the memory of `target` holds.
ir::Value* fit(ir::Builder& builder, ir::Value* value, const at::Tensor& target);

}  // namespace ipu::frontends::torch_frontend
