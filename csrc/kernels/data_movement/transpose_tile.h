// Transposition of a small 32-bit tile in vector registers: where copies spend their time when rows become
// columns.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// to[c + r*to_row] = from[r + c*from_column] for r < rows, c < columns.
using TransposeFunction = void (*)(const uint32_t* from, uint32_t* to, int64_t rows, int64_t columns,
                                   int64_t from_column, int64_t to_row);

TransposeFunction transpose_function();  // for active_isa()

}  // namespace ipu::kernels
