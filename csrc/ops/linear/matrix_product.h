// The matrix product of tensors of any rank, as torch.matmul, NumPy and ONNX have it.
#pragma once

#include <string_view>

#include "ops/definition/rule_support.h"

namespace ipu::ops {

// Vectors become matrices, leading dimensions of `a` are rows when `b` is a matrix, otherwise batch dimensions
// broadcast. `name` is what messages call the product.
ir::Value* matrix_product(ImportCall& call, std::string_view name, ir::Value* a, ir::Value* b);

}  // namespace ipu::ops
