// f16 memory on its way in and out of the f32 loops: rows widened and narrowed, straight or transposed, and
// the product of few rows with an f16 matrix read where it is. f16 is only ever stored: all sums are f32, and
// a result is rounded once, when it is narrowed. Equal bits on every instruction set. Not here: which product
// widens what (half_product.h).
#pragma once

#include <cstdint>

namespace ipu::kernels {

using Half = uint16_t;  // the stored bits

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

// C[rows,columns] = A[rows,depth] · B[depth,columns], rows <= kFewRows, columns a multiple of 16. B is
// widened in registers. Each element is two chains of multiply-adds, of the even and of the odd terms.
inline constexpr int64_t kFewRows = 4;
struct FewRowsShape {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
};
void few_rows_product(const FewRowsShape& shape, const float* a, const Half* b, float* c);

}  // namespace ipu::kernels
