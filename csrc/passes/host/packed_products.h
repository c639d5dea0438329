// Plain products of matrices, one of which is packed as the weight of a linear layer is.
#pragma once

#include "ir/module.h"

namespace ipu::passes {

// A product of two matrices that may be that of a linear layer or a gradient of it: only the other operand, or none, is read
// transposed.
bool is_product_of_weight(const ir::Op& op);

// When the matrix at its side of the weight is packed: replaces it by the op of a linear layer that reads or makes this. False:
// it stays.
bool read_packed_weight(ir::Op& op);

}  // namespace ipu::passes
