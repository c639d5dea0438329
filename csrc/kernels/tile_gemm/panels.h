// The panels of a [K,N] matrix: panels of `width` columns, each [K][width], the last one padded with
// zeros. Here: its arithmetic, packing of whole matrices and of blocks. Not here: when to pack (product.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/tile_gemm/half_rows.h"
#include "support/dtype.h"

namespace ipu::kernels {

constexpr int64_t panel_width(int64_t columns) { return columns < 64 ? 16 : 64; }
constexpr int64_t panel_count(int64_t columns) {
  return (columns + panel_width(columns) - 1) / panel_width(columns);
}

// A matrix of f32 or f16 that is read in blocks, in whatever form it is stored.
struct MatrixSource {
  enum class Form : uint8_t {
    kRows,              // element (r, c) at r * stride + c
    kTransposed,        // element (r, c) at c * stride + r
    kPanels,            // packed [rows, columns]
    kTransposedPanels,  // packed [columns, rows], read as its transpose
  };
  Form form = Form::kRows;
  int64_t rows = 0, columns = 0;
  int64_t stride = 0;  // of the plain forms

  bool is_packed() const { return form == Form::kPanels || form == Form::kTransposedPanels; }
  bool is_transposed() const { return form == Form::kTransposed || form == Form::kTransposedPanels; }
};

// Copies the block [row, row + rows) × [column, column + columns) of `source` to `to`, row major with rows of
// `width` elements; columns up to `width` become zero.
void pack_block(const MatrixSource& source, const float* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, float* to, int64_t width);
void pack_block(const MatrixSource& source, const Half* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, float* to, int64_t width);  // widened
void pack_block(const MatrixSource& source, const Half* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, Half* to, int64_t width);

// Whole panels [first, last) of the packed form of `source` (of any form) into `to`, the start of the packed
// matrix.
void pack_panels(const MatrixSource& source, const float* from, float* to, int64_t first, int64_t last);
void pack_panels(const MatrixSource& source, const Half* from, Half* to, int64_t first, int64_t last);

}  // namespace ipu::kernels
