// Reads tensor specs as matrices: which of the two last dimensions is dense, and whether leading dimensions
// collapse. Not here: the products themselves (tile_gemm/product.h).
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/tile_gemm/panels.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

// The matrix in the last two dimensions of `spec` (transposed on demand), with its batch dimensions left out.
// nullopt: neither dimension is dense. A packed spec must be 2-d.
std::optional<MatrixSource> matrix_of(const TensorSpec& spec, bool transpose);

// [..., columns] as one matrix [rows, columns] of dense rows; nullopt when the leading dimensions do not
// collapse.
std::optional<MatrixSource> rows_of(const TensorSpec& spec);

}  // namespace ipu::kernels
