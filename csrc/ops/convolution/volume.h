// Three spatial dimensions by means of two: windows along the depth become channels of an ordinary
// convolution.
#pragma once

#include "ops/convolution/window.h"

namespace ipu::ops {

// x [N, C, D, H, W], weight [O, C / groups, KD, KH, KW], bias [O] or nullptr; attributes of conv with three
// entries.
ir::Value* volume_convolution(ImportCall& call, ir::Value* x, ir::Value* weight, ir::Value* bias,
                              const Attributes& attributes);
// The transposed convolution, with its result's shape in attribute input_shape.
ir::Value* transposed_volume_convolution(ImportCall& call, ir::Value* x, ir::Value* weight,
                                         const Attributes& attributes);

// The gradient for the weight, whose shape is attribute kernel_shape.
ir::Value* volume_weight_gradient(ImportCall& call, ir::Value* x, ir::Value* dy,
                                  const Attributes& attributes);

}  // namespace ipu::ops
