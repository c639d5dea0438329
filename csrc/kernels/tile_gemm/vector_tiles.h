// Our own vector loops under the heavy kernels, compiled by Highway for several instruction sets and chosen
// at run time: the portable tile, dot products, tile epilogues and blocked transposition. Each gives the same
// bits on every instruction set with fused multiply-add. Not here: what is called when (tile_gemm.cc,
// product.cc).
#pragma once

#include <cstdint>

#include "kernels/tile_gemm/tile_gemm.h"

namespace ipu::kernels {

using Half = uint16_t;  // the stored bits of an f16

// The tile of tile_gemm.h without generated code.
void portable_tile(const TileShape& shape, const float* a, const float* b, float* c);
void portable_batch_tile(const TileShape& shape, const float* a, const float* b, float* c,
                         const uint64_t* a_offsets, const uint64_t* b_offsets, int64_t count);

// c[j] = Σ_p a[p * a_step] · b[p * ldb + j], depth >= 1: the chain of the tile, for one row against plain
// rows of B.
void row_product(const float* a, int64_t a_step, const float* b, int64_t ldb, int64_t depth, int64_t columns,
                 float* c);

// C[rows,columns] = A[rows,depth] · B[columns,depth]ᵀ by dot products, for few rows (B is read once,
// unpacked). B comes in segments of `segment` consecutive elements of depth: element (j, p) lies at b + (p /
// segment) * segment_stride + j * ldb + p % segment. One segment: segment = depth. Sums 16 interleaved chains
// in a fixed tree, whatever the instruction set.
struct DotShape {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t segment = 0, segment_stride = 0;
};
void dot_tile(const DotShape& shape, const float* a, const float* b, float* c);
void dot_tile(const DotShape& shape, const float* a, const Half* b, float* c);  // B in f16

enum class Activation : uint8_t { kNone, kRelu, kGelu };

// c[i][j] = activation(c[i][j] + bias[j]) + addend[i][j], rows of both ldc apart. bias and addend may be null.
void finish_tile(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias,
                 Activation activation, const float* addend = nullptr);

// c[i][j] += t[i][j], t dense with rows of ldt.
void add_tile(float* c, int64_t ldc, const float* t, int64_t ldt, int64_t rows, int64_t columns);

// to[j][i] = from[i][j] for i < rows, j < columns; halves are widened.
void transpose_tile(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t columns);
void transpose_tile(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t columns);

}  // namespace ipu::kernels
