// ONNX's way to say a window: pads before and behind, or a word that says how to make them.
#pragma once

#include "ops/convolution/window.h"
#include "ops/definition/node_support.h"

namespace ipu::ops {

// From attributes strides, dilations, pads and auto_pad; `sizes` are the spatial sizes of the input.
Window read_node_window(NodeImportCall& call, std::vector<int64_t> kernel, std::span<const int64_t> sizes);

}  // namespace ipu::ops
