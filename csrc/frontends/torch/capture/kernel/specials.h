// Operators about memory, devices and values, which the capture treats by themselves: copies, constants written
// to memory, storages, aliases, and questions for a value.
#pragma once

#include <ATen/core/stack.h>

#include "frontends/torch/capture/capture.h"

namespace ipu::frontends::torch_frontend {

// Whether `info` is such an operator; then the call has been made. `capture`: the thread's own, or nullptr;
// `in_graph`: a value of its graph is among the arguments.
bool run_special(Capture* capture, const OpInfo& info, bool in_graph, torch::jit::Stack* stack);

}  // namespace ipu::frontends::torch_frontend
