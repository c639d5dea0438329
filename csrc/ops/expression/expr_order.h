// Orders expression trees for evaluation and compilation: every distinct node once, arguments before users.
// Nodes are distinct by content, so common subtrees are shared however the trees were built.
#pragma once

#include <vector>

#include "ops/expression/expr.h"

namespace ipu::ops {

struct OrderedNode {
  Func func = Func::kInput;
  DType dtype = DType::kF32;
  int input = 0;               // kInput
  double value = 0.0;          // kConstant
  std::vector<int> arguments;  // positions of earlier nodes
};

struct OrderedTrees {
  std::vector<OrderedNode> nodes;
  std::vector<int> roots;
};

OrderedTrees order(std::span<const Expr> roots);

}  // namespace ipu::ops
