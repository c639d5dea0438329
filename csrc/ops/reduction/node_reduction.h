// How ONNX's reductions say what they reduce.
#pragma once

#include "ops/definition/node_support.h"

namespace ipu::ops {

struct Reduction {
  std::vector<int64_t> dims;
  bool keeps;
};

// Axes are an attribute before version `operand_since` and operand 1 from then on. No axes: all dimensions, or
// none where the node says so.
Reduction read_reduction(NodeImportCall& call, size_t rank, int operand_since);

// From which version on the axes of a reduction are an operand.
int axes_operand_since(std::string_view type);

}  // namespace ipu::ops
