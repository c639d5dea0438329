// Convolutions as work on the tiles.
#pragma once

#include "ops/definition/work.h"

namespace ipu::ops {

// The shapes that belong to the convolution, whichever of them the pass makes.
struct ConvolutionShapes {
  const Shape &x, &weight;
};
// The convolutions of a MultiConv share the tiles, each has as many as its part of all multiplications.
std::vector<target::Work> convolution_work(const ir::Op& op, target::ConvolutionPass pass,
                                           ConvolutionShapes (*shapes)(const ir::Op&));

// Of conv and fused_conv, without what a fused one does afterwards.
std::vector<target::Work> forward_convolution_work(const ir::Op& op);

}  // namespace ipu::ops
