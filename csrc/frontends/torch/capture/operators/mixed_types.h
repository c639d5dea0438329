// Operators that torch refuses on operands of different floating-point types and the IPU computes: layers
// with weights cast weight and bias to the type of their input, products compute in the wider type. The casts
// are captured as operations of their own, so type rules, importers and gradients see equal types.
#pragma once

#include "frontends/torch/capture/operators/op_info.h"

namespace ipu::frontends::torch_frontend {

// Casts the operands in the arguments of `info` on top of the stack where its rule asks for it.
void settle_mixed_types(const OpInfo& info, torch::jit::Stack* stack);

}  // namespace ipu::frontends::torch_frontend
