// f16 memory on its way in and out of the f32 loops: rows widened and narrowed, straight or transposed, and
// the product of few rows with an f16 matrix read where it is. f16 is only ever stored: all sums are f32, and
// a result is rounded once, when it is narrowed. Equal bits on every instruction set. Not here: which product
// widens what (half_product.h).
#pragma once

#include <cstdint>

#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {

// to[i][j] = from[i][j] for i < rows, j < columns; strides from row to row.
void widen_rows(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                int64_t columns);
void narrow_rows(const float* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                 int64_t columns);

// to[j][i] = from[i][j] for i < rows, j < columns.
void widen_transposed(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                      int64_t columns);
void narrow_transposed(const float* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                       int64_t columns);
void transpose_halves(const Half* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                      int64_t columns);

// The same, whatever the two sides hold.
inline void copy_transposed(const float* from, int64_t from_stride, float* to, int64_t to_stride,
                            int64_t rows, int64_t columns) {
  transpose_tile(from, from_stride, to, to_stride, rows, columns);
}
inline void copy_transposed(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                            int64_t columns) {
  widen_transposed(from, from_stride, to, to_stride, rows, columns);
}
inline void copy_transposed(const Half* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                            int64_t columns) {
  transpose_halves(from, from_stride, to, to_stride, rows, columns);
}

// A tile of a product with B in f16, widened in registers: sums of A[rows,depth] · B[depth,columns], each one
// chain of multiply-adds (two where there are at most kTwoChainRows rows: of even and of odd terms), added to
// `sums` or rounded into `result`. B and sums may be read and written up to the next multiple of 16 columns.
inline constexpr int64_t kTwoChainRows = 2;
struct HalfTile {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t a_row = 0, a_depth = 0, ldb = 0;  // element (i, p) of A is at i * a_row + p * a_depth
  float* sums = nullptr;                    // with rows of ld_sums
  int64_t ld_sums = 0;
  bool continues = false;  // the chains go on from `sums`
  Half* result = nullptr;  // null: the sums are stored
  int64_t ld_result = 0;
  const float* bias = nullptr;                // null: none; else for whole vectors
  Activation activation = Activation::kNone;  // kNone or kRelu
};
void half_tile(const HalfTile& tile, const float* a, const Half* b);

// What becomes of f32 sums on their way into an f16 result, each step rounded as the op it stands for: the product
// with its bias and relu, gelu, the addend (rows as far apart as those of the result).
struct HalfEnd {
  const float* bias = nullptr;  // null: none; else for whole vectors
  Activation activation = Activation::kNone;
  const Half* addend = nullptr;  // null: none
  int64_t ld_result = 0;
};
// sums[rows, columns], `ld` apart, may be read up to the next multiple of 16 columns.
void finish_halves(const HalfEnd& end, const float* sums, int64_t ld, int64_t rows, int64_t columns,
                   Half* result);

}  // namespace ipu::kernels
