// Packing into panels. Straight copies are memcpy; transposing copies go by 8×8 register blocks.
#include "kernels/tile_gemm/panels.h"

#include <cstring>

#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

size_t float_bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * to_stride, from + r * from_stride, float_bytes(columns));
}

}  // namespace

void pack_block(const MatrixSource& source, const float* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, float* to, int64_t width) {
  switch (source.form) {
    case MatrixSource::Form::kRows:
      copy_rows(from + row * source.stride + column, source.stride, to, width, rows, columns);
      break;
    case MatrixSource::Form::kTransposed:
      transpose_tile(from + column * source.stride + row, source.stride, to, width, columns, rows);
      break;
    case MatrixSource::Form::kPanels: {
      const int64_t w = panel_width(source.columns);
      for (int64_t c = column; c < column + columns;) {
        const int64_t inside = c % w, count = std::min(w - inside, column + columns - c);
        copy_rows(from + (c - inside) * source.rows + row * w + inside, w, to + (c - column), width, rows,
                  count);
        c += count;
      }
      break;
    }
    case MatrixSource::Form::kTransposedPanels: {
      // Stored is S = [columns, rows] in panels over `rows`; block element (r, c) is S(c, r).
      const int64_t w = panel_width(source.rows);
      for (int64_t r = row; r < row + rows;) {
        const int64_t inside = r % w, count = std::min(w - inside, row + rows - r);
        transpose_tile(from + (r - inside) * source.columns + column * w + inside, w, to + (r - row) * width,
                       width, columns, count);
        r += count;
      }
      break;
    }
  }
  if (columns < width)
    for (int64_t r = 0; r < rows; ++r) std::memset(to + r * width + columns, 0, float_bytes(width - columns));
}

void pack_panels(const MatrixSource& source, const float* from, float* to, int64_t first, int64_t last) {
  const int64_t width = panel_width(source.columns);
  constexpr int64_t kRowBlock = 256;  // a block of source and panel stays in the first cache
  for (int64_t panel = first; panel < last; ++panel)
    for (int64_t row = 0; row < source.rows; row += kRowBlock)
      pack_block(source, from, row, std::min(kRowBlock, source.rows - row), panel * width,
                 std::min(width, source.columns - panel * width),
                 to + panel * width * source.rows + row * width, width);
}

}  // namespace ipu::kernels
