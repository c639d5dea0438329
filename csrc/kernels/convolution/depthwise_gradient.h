// The weight gradient of a depthwise convolution: dw[O,1,*kernel] of as many groups as input channels, f32 or f16,
// activations plain or nhwc in any mix. Vectors run over output channels, 16 at a time; chunks of output pixels of these and the input they meet are copied, padded
// with zeros, and each tap is one chain of multiply-adds over a chunk. Chunks are added in order and depend on shapes
// only; lanes cut channels and rows of the kernel, never a sum.
#pragma once

#include <memory>

#include "kernels/convolution/geometry.h"

namespace ipu::kernels {

inline bool is_depthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.groups == g.in_channels && g.out_channels > 0;
}

// `x_last`, `dy_last`: whether they lie channels last; `is_half`: all are f16.
std::unique_ptr<PreparedKernel> make_depthwise_weight_gradient(const ConvGeometry& geometry, bool x_last,
                                                               bool dy_last, bool is_half);

}  // namespace ipu::kernels
