// Convolutions as work on the tiles.
#pragma once

#include "ops/definition/work.h"

namespace ipu::ops {

// `x` and `weight` are the shapes that belong to the convolution, whichever of them the pass makes.
std::vector<target::Work> convolution_work(const ir::Op& op, target::ConvolutionPass pass, const Shape& x,
                                           const Shape& weight);

// Of conv and fused_conv, without what a fused one does afterwards.
std::vector<target::Work> forward_convolution_work(const ir::Op& op);

}  // namespace ipu::ops
