// Packing into panels. Straight copies are memcpy; transposing copies go by 8×8 register blocks.
#include "kernels/tile_gemm/panels.h"

#include <cstring>

#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

template <class T>
size_t bytes_of(int64_t count) {
  return static_cast<size_t>(count) * sizeof(T);
}

template <class T>
void copy_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t columns) {
  if (columns == 0) return;           // of no memory
  for (int64_t r = 0; r < rows; ++r)  // a hostile program's result may lie in its operand
    std::memmove(to + r * to_stride, from + r * from_stride, bytes_of<T>(columns));
}
void copy_rows(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  widen_rows(from, from_stride, to, to_stride, rows, columns);
}

template <class From, class To>
void pack(const MatrixSource& source, const From* from, int64_t row, int64_t rows, int64_t column,
          int64_t columns, To* to, int64_t width) {
  switch (source.form) {
    case MatrixSource::Form::kRows:
      copy_rows(from + row * source.stride + column, source.stride, to, width, rows, columns);
      break;
    case MatrixSource::Form::kTransposed:
      copy_transposed(from + column * source.stride + row, source.stride, to, width, columns, rows);
      break;
    case MatrixSource::Form::kPanels: {
      const int64_t w = panel_width(source.columns);
      if (column % w == 0 && width == w)  // rows of one panel, with their padding
        return copy_rows(from + column * source.rows + row * w, w, to, width, rows, w);
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
        copy_transposed(from + (r - inside) * source.columns + column * w + inside, w, to + (r - row) * width,
                        width, columns, count);
        r += count;
      }
      break;
    }
  }
  if (columns < width)
    for (int64_t r = 0; r < rows; ++r)
      std::memset(to + r * width + columns, 0, bytes_of<To>(width - columns));
}

template <class T>
void pack_all(const MatrixSource& source, const T* from, T* to, int64_t first, int64_t last) {
  const int64_t width = panel_width(source.columns);
  constexpr int64_t kRowBlock = 256;  // a block of source and panel stays in the first cache
  for (int64_t panel = first; panel < last; ++panel)
    for (int64_t row = 0; row < source.rows; row += kRowBlock)
      pack(source, from, row, std::min(kRowBlock, source.rows - row), panel * width,
           std::min(width, source.columns - panel * width), to + panel * width * source.rows + row * width,
           width);
}

}  // namespace

void pack_block(const MatrixSource& source, const float* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, float* to, int64_t width) {
  pack(source, from, row, rows, column, columns, to, width);
}
void pack_block(const MatrixSource& source, const Half* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, float* to, int64_t width) {
  pack(source, from, row, rows, column, columns, to, width);
}
void pack_block(const MatrixSource& source, const Half* from, int64_t row, int64_t rows, int64_t column,
                int64_t columns, Half* to, int64_t width) {
  pack(source, from, row, rows, column, columns, to, width);
}

void pack_panels(const MatrixSource& source, const float* from, float* to, int64_t first, int64_t last) {
  pack_all(source, from, to, first, last);
}
void pack_panels(const MatrixSource& source, const Half* from, Half* to, int64_t first, int64_t last) {
  pack_all(source, from, to, first, last);
}

}  // namespace ipu::kernels
