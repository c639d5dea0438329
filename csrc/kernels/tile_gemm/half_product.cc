// The loops of half_product.h. kTiles goes by blocks of rows and pieces of k: a piece of A is widened once
// for all columns of a lane, and f32 sums of the whole block wait in scratch for the next piece.
#include "kernels/tile_gemm/half_product.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestPiece = 512;
constexpr int64_t kDotRows = 16;             // most rows for which dot products are worth it
constexpr int64_t kSumFloats = 1 << 16;      // of C that stay in the second cache
constexpr int64_t kWidenedFloats = 1 << 15;  // of B at a time for dot products

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }

}  // namespace

HalfProduct::HalfProduct(const ProductShape& shape) : shape_(shape) {
  IPU_CHECK(shape.b.rows == shape.k && shape.b.columns == shape.n, "B of a product must be [k, n]");
  const int64_t m = shape.m, n = shape.n, k = shape.k;
  const bool panels = shape.b.form == MatrixSource::Form::kPanels;
  column_step_ = shape.packed_c || panels ? panel_width(n) : std::min<int64_t>(64, std::max<int64_t>(1, n));
  row_step_ = std::min<int64_t>(64, std::max<int64_t>(1, m));
  ldc_ = shape.packed_c ? column_step_ : shape.ldc;
  const bool plain = !shape.transposed_a && !shape.packed_c;
  if (plain && shape.b.is_transposed() && m <= kDotRows && (m <= 2 || k >= 8 * m))
    method_ = Method::kDots;
  else if (plain && !shape.b.is_transposed() && m <= kFewRows)
    method_ = Method::kFewRows;

  const double cost = product_microseconds(m, n, k);
  if (cost >= 100) {
    const int wanted = static_cast<int>(std::min<double>(shape.max_lanes, cost / 50));
    lanes_n_ = static_cast<int>(std::min<int64_t>(wanted, std::max<int64_t>(1, divide_up(n, column_step_))));
    if (method_ == Method::kTiles)
      lanes_m_ = static_cast<int>(std::min<int64_t>(wanted / lanes_n_, divide_up(m, row_step_)));
  }
  lane_columns_ = divide_up(divide_up(n, column_step_), lanes_n_) * column_step_;
  if (m == 0 || n == 0 || k == 0) return;

  switch (method_) {
    case Method::kTiles:
      pieces_ = divide_up(k, kLongestPiece);
      piece_ = pieces_ == 1 ? k : round_up(divide_up(k, pieces_), 16);
      pieces_ = divide_up(k, piece_);
      block_rows_ = std::clamp(kSumFloats / lane_columns_, std::min<int64_t>(128, m), m);
      block_rows_ = std::min(m, round_up(block_rows_, row_step_));
      make_tiles();
      scratch_floats_ = round_up(block_rows_ * piece_, 16) +
                        round_up(piece_ * round_up(column_step_, 16), 16) +
                        round_up(block_rows_ * lane_columns_, 16);
      break;
    case Method::kFewRows:
      scratch_floats_ =
          round_up(m * k, 16) + round_up(m * round_up(column_step_, 16), 16) +
          round_up(k * round_up(column_step_, 16) / 2, 16);  // a padded copy of the last columns
      break;
    case Method::kDots:
      dot_columns_ = std::clamp<int64_t>(kWidenedFloats / k, 4, 64);
      scratch_floats_ = round_up(m * k, 16) + round_up(dot_columns_ * k, 16) + m * 64;
      break;
  }
}

void HalfProduct::make_tiles() {
  const int64_t n = shape_.n;
  const int64_t last_columns = n - (divide_up(n, column_step_) - 1) * column_step_;
  const int64_t last_piece = shape_.k - (pieces_ - 1) * piece_;
  for (int full : {0, 1}) {
    const int64_t rows = full ? row_step_ : shape_.m % row_step_;
    if (rows == 0) continue;
    for (int last : {0, 1})
      for (int final : {0, 1})
        for (int later : {0, 1}) {
          TileShape t;
          t.rows = rows;
          t.columns = last ? last_columns : column_step_;
          t.depth = final ? last_piece : piece_;
          t.transposed_a = shape_.transposed_a;
          t.lda = shape_.transposed_a ? block_rows_ : piece_;
          t.ldb = round_up(column_step_, 16);
          t.ldc = lane_columns_;
          t.accumulate = later != 0;
          if ((!last && n <= column_step_) || (later && pieces_ == 1) || (!final && pieces_ == 1)) continue;
          tiles_[full][last][final][later] = TileGemm(t, shape_.provider);
        }
  }
}

int64_t HalfProduct::c_index(int64_t row, int64_t column) const {
  return shape_.packed_c ? column * shape_.m + row * column_step_ : row * ldc_ + column;
}

HalfProduct::Range HalfProduct::part(int64_t count, int64_t grain, int parts, int index) {
  const int64_t grains = divide_up(count, grain);
  return {std::min(count, grains * index / parts * grain),
          std::min(count, grains * (index + 1) / parts * grain)};
}

// Adds the bias, applies the activation and rounds `columns` <= 64 columns of a tile.
void HalfProduct::finish(float* tile, int64_t ld, int64_t rows, int64_t columns, const Half* bias,
                         Half* to) const {
  float wide[64];
  if (bias != nullptr) widen_rows(bias, columns, wide, columns, 1, columns);
  finish_tile(tile, ld, rows, columns, bias == nullptr ? nullptr : wide, shape_.activation);
  narrow_rows(tile, ld, to, ldc_, rows, columns);
  if (shape_.packed_c && columns < column_step_)
    for (int64_t i = 0; i < rows; ++i)
      std::memset(to + i * ldc_ + columns, 0, static_cast<size_t>(column_step_ - columns) * sizeof(Half));
}

void HalfProduct::run(const Half* a, const Half* b, const Half* bias, Half* c, std::byte* scratch,
                      int lane) const {
  const Range rows = part(shape_.m, row_step_, lanes_m_, lane / lanes_n_);
  const Range columns = part(shape_.n, column_step_, lanes_n_, lane % lanes_n_);
  if (rows.first == rows.last || columns.first == columns.last) return;
  if (shape_.k == 0) {
    float zeros[64];
    for (int64_t column = columns.first; column < columns.last; column += column_step_)
      for (int64_t row = rows.first; row < rows.last; ++row) {
        const int64_t count = std::min(column_step_, columns.last - column);
        std::fill_n(zeros, 64, 0.0f);
        finish(zeros, 64, 1, count, bias == nullptr ? nullptr : bias + column, c + c_index(row, column));
      }
    return;
  }
  auto* const space = reinterpret_cast<float*>(scratch);
  switch (method_) {
    case Method::kTiles:
      return run_tiles(a, b, bias, c, space, rows, columns);
    case Method::kFewRows:
      return run_few_rows(a, b, bias, c, space, columns);
    case Method::kDots:
      return run_dots(a, b, bias, c, space, columns);
  }
}

void HalfProduct::run_tiles(const Half* a, const Half* b, const Half* bias, Half* c, float* scratch,
                            Range rows, Range columns) const {
  const int64_t width = round_up(column_step_, 16);
  float* const wide_a = scratch;
  float* const wide_b = wide_a + round_up(block_rows_ * piece_, 16);
  float* const sums = wide_b + round_up(piece_ * width, 16);
  for (int64_t first = rows.first; first < rows.last; first += block_rows_) {
    const int64_t count = std::min(block_rows_, rows.last - first);
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const int64_t start = piece * piece_, depth = std::min(piece_, shape_.k - start);
      const bool is_last = piece == pieces_ - 1;
      if (shape_.transposed_a)
        widen_rows(a + start * shape_.lda + first, shape_.lda, wide_a, block_rows_, depth, count);
      else
        widen_rows(a + first * shape_.lda + start, shape_.lda, wide_a, piece_, count, depth);
      for (int64_t column = columns.first; column < columns.last; column += column_step_) {
        const int64_t used = std::min(column_step_, shape_.n - column);
        pack_block(shape_.b, b, start, depth, column, used, wide_b, width);
        const auto& tiles = tiles_;
        for (int64_t row = 0; row < count; row += row_step_) {
          const int64_t height = std::min(row_step_, count - row);
          float* const sum = sums + row * lane_columns_ + (column - columns.first);
          tiles[height == row_step_][column + column_step_ >= shape_.n][is_last][piece > 0](
              wide_a + (shape_.transposed_a ? row : row * piece_), wide_b, sum);
          if (is_last)
            finish(sum, lane_columns_, height, used, bias == nullptr ? nullptr : bias + column,
                   c + c_index(first + row, column));
        }
      }
    }
  }
}

void HalfProduct::run_few_rows(const Half* a, const Half* b, const Half* bias, Half* c, float* scratch,
                               Range columns) const {
  const int64_t m = shape_.m, k = shape_.k, width = round_up(column_step_, 16);
  float* const wide_a = scratch;
  float* const sums = wide_a + round_up(m * k, 16);
  Half* const padded = reinterpret_cast<Half*>(sums + round_up(m * width, 16));
  widen_rows(a, shape_.lda, wide_a, k, m, k);
  const bool panels = shape_.b.form == MatrixSource::Form::kPanels;
  for (int64_t column = columns.first; column < columns.last; column += column_step_) {
    const int64_t used = std::min(column_step_, shape_.n - column);
    FewRowsShape shape{m, width, k, k, 0, width};
    const Half* tile;
    if (panels) {
      shape.ldb = column_step_;
      tile = b + column * k;
    } else if (used == width) {
      shape.ldb = shape_.b.stride;
      tile = b + column;
    } else {
      pack_block(shape_.b, b, 0, k, column, used, padded, width);
      shape.ldb = width;
      tile = padded;
    }
    few_rows_product(shape, wide_a, tile, sums);
    finish(sums, width, m, used, bias == nullptr ? nullptr : bias + column, c + c_index(0, column));
  }
}

void HalfProduct::run_dots(const Half* a, const Half* b, const Half* bias, Half* c, float* scratch,
                           Range columns) const {
  const int64_t m = shape_.m, k = shape_.k;
  float* const wide_a = scratch;
  float* const wide_b = wide_a + round_up(m * k, 16);
  float* const sums = wide_b + round_up(dot_columns_ * k, 16);
  widen_rows(a, shape_.lda, wide_a, k, m, k);
  DotShape dot;
  dot.rows = m;
  dot.depth = dot.segment = dot.lda = dot.ldb = k;
  dot.ldc = 64;
  for (int64_t column = columns.first; column < columns.last; column += dot_columns_) {
    dot.columns = std::min(dot_columns_, columns.last - column);
    if (shape_.b.form == MatrixSource::Form::kTransposedPanels) {
      // Stored is [n, k] in panels over k.
      const int64_t width = panel_width(k);
      for (int64_t p = 0; p < k; p += width)
        widen_rows(b + p * shape_.n + column * width, width, wide_b + p, k, dot.columns,
                   std::min(width, k - p));
    } else {
      widen_rows(b + column * shape_.b.stride, shape_.b.stride, wide_b, k, dot.columns, k);
    }
    dot_tile(dot, wide_a, wide_b, sums);
    finish(sums, 64, m, dot.columns, bias == nullptr ? nullptr : bias + column, c + c_index(0, column));
  }
}

}  // namespace ipu::kernels
