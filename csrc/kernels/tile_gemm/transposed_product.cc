// Panel after panel passes by while the sums of a block of columns wait near the processor.
#include "kernels/tile_gemm/transposed_product.h"

#include <algorithm>

#include "kernels/tile_gemm/half_rows.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kVector = 16;         // floats
constexpr int64_t kRowWidth = 64;       // of plain rows of S that is read at a time
constexpr int64_t kBlockColumns = 512;  // of C: their sums stay in the second cache

// Rows of S as a tile reads them, `row_stride` apart or, widened, `width` apart.
const float* tile_of(const float* from, int64_t, float*, int64_t, int64_t, int64_t) { return from; }
const float* tile_of(const Half* from, int64_t row_stride, float* wide, int64_t width, int64_t rows,
                     int64_t depth) {
  widen_rows(from, row_stride, wide, width, rows, depth);
  return wide;
}

}  // namespace

int TransposedProduct::most_lanes(int64_t columns) {
  constexpr int64_t kEnoughLanes = 4, kLaneColumns = 256;
  return static_cast<int>(std::max(columns / kLaneColumns, kEnoughLanes));
}

TransposedProduct::TransposedProduct(const TransposedShape& shape)
    : shape_(shape),
      width_(shape.b.is_packed() ? panel_width(shape.k) : kRowWidth),
      row_stride_(shape.b.is_packed() ? width_ : shape.b.stride),
      panel_stride_(shape.b.is_packed() ? width_ * shape.n : width_),
      pitch_((shape.m + kVector - 1) / kVector * kVector),
      block_columns_(std::min(shape.lane_columns, kBlockColumns)) {
  const int64_t k = shape.k;
  for (int64_t start = 0; start < k;) {
    const int64_t piece = start / shape.piece, piece_end = std::min(k, (piece + 1) * shape.piece);
    const int64_t end = std::min(piece_end, (start / width_ + 1) * width_);
    const bool begins = start == piece * shape.piece;
    segments_.push_back({start, end - start, begins, end == piece_end,
                         tiles_for(end - start, shape.one_chain ? start > 0 : !begins)});
    start = end;
  }
  const int64_t sums = block_columns_ * pitch_;
  scratch_floats_ = a_floats() + wide_floats() + (k > shape.piece && !shape.one_chain ? 2 : 1) * sums;
}

size_t TransposedProduct::tiles_for(int64_t depth, bool accumulate) {
  for (size_t i = 0; i < tiles_.size(); ++i)
    if (tiles_[i].depth == depth && tiles_[i].accumulate == accumulate) return i;
  Tiles tiles{depth, accumulate, {}};
  for (int full : {0, 1}) {
    TileShape tile;
    tile.rows = full ? kRows : shape_.n % kRows;
    tile.columns = tile.ldb = tile.ldc = pitch_;
    tile.depth = depth;
    tile.lda = shape_.halves ? width_ : row_stride_;
    tile.accumulate = accumulate;
    if (tile.rows > 0) tiles.of[full] = TileGemm(tile, shape_.provider);
  }
  tiles_.push_back(tiles);
  return tiles_.size() - 1;
}

template <class T>
bool TransposedProduct::run_blocks(const T* a, const T* b, float* c, int64_t ldc, float* scratch,
                                   int64_t first, int64_t last, StopMeter& meter) const {
  float* const wide = scratch + a_floats();
  float* const sums = wide + wide_floats();
  float* const partial = sums + block_columns_ * pitch_;
  for (int64_t column = first; column < last; column += block_columns_) {
    const int64_t count = std::min(block_columns_, last - column);
    int64_t piece = 0;  // its start
    for (const Segment& segment : segments_) {
      if (segment.begins) {
        piece = segment.start;
        const int64_t depth = std::min(shape_.piece, shape_.k - piece);
        transpose_tile(a + piece, shape_.lda, scratch, pitch_, shape_.m, depth);
        for (int64_t p = 0; shape_.m < pitch_ && p < depth; ++p)
          std::fill(scratch + p * pitch_ + shape_.m, scratch + (p + 1) * pitch_, 0.0f);
      }
      const bool waits = piece > 0 && !shape_.one_chain;
      float* const to = waits ? partial : sums;
      const float* const a_part = scratch + (segment.start - piece) * pitch_;
      const T* const from =
          b + segment.start / width_ * panel_stride_ + segment.start % width_ + column * row_stride_;
      for (int64_t row = 0; row < count; row += kRows) {
        const int64_t rows = std::min(kRows, count - row);
        const float* const tile =
            tile_of(from + row * row_stride_, row_stride_, wide, width_, rows, segment.depth);
        tiles_[segment.tiles].of[rows == kRows](tile, a_part, to + row * pitch_);
      }
      if (meter.stops_products(count * segment.depth * pitch_)) return false;
      if (segment.ends && waits) add_tile(sums, pitch_, partial, pitch_, count, shape_.m);
    }
    transpose_tile(sums, pitch_, c + (column - first), ldc, count, shape_.m);
  }
  return true;
}

bool TransposedProduct::run(const float* a, const float* b, float* c, int64_t ldc, float* scratch,
                            int64_t first, int64_t last, StopMeter& meter) const {
  return run_blocks(a, b, c, ldc, scratch, first, last, meter);
}
bool TransposedProduct::run(const Half* a, const Half* b, float* c, int64_t ldc, float* scratch,
                            int64_t first, int64_t last, StopMeter& meter) const {
  return run_blocks(a, b, c, ldc, scratch, first, last, meter);
}

}  // namespace ipu::kernels
