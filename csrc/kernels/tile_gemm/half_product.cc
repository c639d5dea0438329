// The loops of half_product.h. Tiles go by blocks of rows and pieces of k: a piece of A is widened once for
// all columns of a lane, and f32 sums of the whole block wait in scratch for the next piece.
#include "kernels/tile_gemm/half_product.h"

#include <algorithm>
#include <cstring>

#include "kernels/lanes.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestPiece = 512;
constexpr int64_t kDotRows = 64, kDotDepthPerRow = 14;  // as in product.cc
constexpr int64_t kPackRowsOfB = 192;
constexpr int64_t kFewRows = 4;          // all of A is widened at once
constexpr int64_t kSumFloats = 1 << 16;  // of C that stay in the second cache

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
  if (shape.b.is_transposed())
    method_ =
        plain && m <= kDotRows && (m <= 2 || k >= kDotDepthPerRow * m) ? Method::kDots : Method::kWideTiles;
  else if (plain && m <= kFewRows)
    method_ = Method::kFewRows;
  else
    method_ = !panels && m >= kPackRowsOfB && shape.b.stride > 64 ? Method::kPackedTiles : Method::kTiles;

  const int64_t column_tiles = divide_up(n, column_step_), row_tiles = divide_up(m, row_step_);
  const int wanted = lanes_for_cost(product_microseconds(m, n, k), column_tiles * row_tiles, shape.max_lanes);
  lanes_n_ = static_cast<int>(std::min<int64_t>(wanted, std::max<int64_t>(1, column_tiles)));
  if (method_ != Method::kFewRows && method_ != Method::kDots)
    lanes_m_ = static_cast<int>(std::min<int64_t>(wanted / lanes_n_, std::max<int64_t>(1, row_tiles)));
  const int64_t lane_columns = divide_up(divide_up(n, column_step_), lanes_n_) * column_step_;
  if (m == 0 || n == 0 || k == 0) return;

  const int64_t width = round_up(column_step_, 16);
  switch (method_) {
    case Method::kTiles:
    case Method::kPackedTiles:
    case Method::kWideTiles:
      pieces_ = divide_up(k, kLongestPiece);
      piece_ = pieces_ == 1 ? k : round_up(divide_up(k, pieces_), 16);
      pieces_ = divide_up(k, piece_);
      sum_columns_ = pieces_ == 1 ? width : round_up(lane_columns, 16);
      block_rows_ = std::clamp(kSumFloats / lane_columns, std::min<int64_t>(128, m), m);
      block_rows_ = std::min(m, round_up(block_rows_, row_step_));
      if (method_ == Method::kWideTiles) make_tiles();
      scratch_floats_ = round_up(block_rows_ * piece_, 16) + (panels ? 0 : round_up(piece_ * width, 16)) +
                        round_up((pieces_ == 1 ? row_step_ : block_rows_) * sum_columns_, 16);
      break;
    case Method::kFewRows:
      scratch_floats_ =
          round_up(m * k, 16) + round_up(m * round_up(column_step_, 16), 16) +
          round_up(k * round_up(column_step_, 16) / 2, 16);  // a padded copy of the last columns
      break;
    case Method::kDots:
      scratch_floats_ = round_up(m * k, 16) + m * 64;
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
          t.ldc = sum_columns_;
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

// The bias of `columns` <= 64 columns as floats for whole vectors; null: none.
const float* HalfProduct::wide_bias(const Half* bias, int64_t columns, float* space) {
  if (bias == nullptr) return nullptr;
  widen_rows(bias, columns, space, columns, 1, columns);
  std::fill(space + columns, space + 64, 0.0f);
  return space;
}

void HalfProduct::clear_padding(Half* to, int64_t rows, int64_t columns) const {
  if (!shape_.packed_c || columns == column_step_) return;
  for (int64_t i = 0; i < rows; ++i)
    std::memset(to + i * ldc_ + columns, 0, static_cast<size_t>(column_step_ - columns) * sizeof(Half));
}

// Adds the bias, applies the activation and rounds `columns` <= 64 columns of a tile of sums.
void HalfProduct::finish(float* sums, int64_t ld, int64_t rows, int64_t columns, const float* bias,
                         Half* to) const {
  finish_tile(sums, ld, rows, columns, bias, shape_.activation);
  narrow_rows(sums, ld, to, ldc_, rows, columns);
  clear_padding(to, rows, columns);
}

void HalfProduct::run(const Half* a, const Half* b, const Half* bias, Half* c, std::byte* scratch, int lane,
                      StopMeter& meter) const {
  const Range rows = part(shape_.m, row_step_, lanes_m_, lane / lanes_n_);
  const Range columns = part(shape_.n, column_step_, lanes_n_, lane % lanes_n_);
  if (rows.first == rows.last || columns.first == columns.last) return;
  if (shape_.k == 0) {
    float zeros[64], bias_space[64];
    for (int64_t column = columns.first; column < columns.last; column += column_step_)
      for (int64_t row = rows.first; row < rows.last; ++row) {
        const int64_t count = std::min(column_step_, columns.last - column);
        std::fill_n(zeros, 64, 0.0f);
        finish(zeros, 64, 1, count, wide_bias(bias == nullptr ? nullptr : bias + column, count, bias_space),
               c + c_index(row, column));
        if (meter.stops(count)) return;
      }
    return;
  }
  auto* const space = reinterpret_cast<float*>(scratch);
  switch (method_) {
    case Method::kTiles:
    case Method::kPackedTiles:
    case Method::kWideTiles:
      return run_tiles(a, b, bias, c, space, rows, columns, meter);
    case Method::kFewRows:
      return run_few_rows(a, b, bias, c, space, columns, meter);
    case Method::kDots:
      return run_dots(a, b, bias, c, space, columns, meter);
  }
}

void HalfProduct::run_tiles(const Half* a, const Half* b, const Half* bias, Half* c, float* scratch,
                            Range rows, Range columns, StopMeter& meter) const {
  const int64_t width = round_up(column_step_, 16);
  const bool panels = shape_.b.form == MatrixSource::Form::kPanels;
  float* const wide_a = scratch;
  float* const copied_b = wide_a + round_up(block_rows_ * piece_, 16);
  float* const sums = copied_b + (panels ? 0 : round_up(piece_ * width, 16));
  HalfTile direct;
  direct.a_row = shape_.transposed_a ? 1 : piece_;
  direct.a_depth = shape_.transposed_a ? block_rows_ : 1;
  direct.ld_sums = sum_columns_;
  direct.ld_result = ldc_;
  direct.activation = shape_.activation;
  for (int64_t first = rows.first; first < rows.last; first += block_rows_) {
    const int64_t count = std::min(block_rows_, rows.last - first);
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const int64_t start = piece * piece_, depth = std::min(piece_, shape_.k - start);
      const bool is_last = piece == pieces_ - 1;
      if (shape_.transposed_a)
        widen_rows(a + start * shape_.lda + first, shape_.lda, wide_a, block_rows_, depth, count);
      else
        widen_rows(a + first * shape_.lda + start, shape_.lda, wide_a, piece_, count, depth);
      direct.depth = depth;
      direct.continues = piece > 0;
      for (int64_t column = columns.first; column < columns.last; column += column_step_) {
        const int64_t used = std::min(column_step_, shape_.n - column);
        const Half* half_b = nullptr;
        if (method_ == Method::kWideTiles) {
          pack_block(shape_.b, b, start, depth, column, used, copied_b, width);
        } else if (panels) {
          half_b = b + column * shape_.k + start * column_step_;
          direct.ldb = column_step_;
        } else if (method_ == Method::kPackedTiles || used % 16 != 0) {
          half_b = reinterpret_cast<Half*>(copied_b);
          direct.ldb = width;
          pack_block(shape_.b, b, start, depth, column, used, reinterpret_cast<Half*>(copied_b), width);
        } else {
          half_b = b + start * shape_.b.stride + column;
          direct.ldb = shape_.b.stride;
        }
        float bias_space[64];
        const float* const wide =
            is_last ? wide_bias(bias == nullptr ? nullptr : bias + column, used, bias_space) : nullptr;
        direct.columns = used;
        direct.bias = wide;
        for (int64_t row = 0; row < count; row += row_step_) {
          const int64_t height = std::min(row_step_, count - row);
          if (meter.stops_products((height + 8) * used * depth)) return;
          float* const sum = pieces_ > 1 ? sums + row * sum_columns_ + (column - columns.first) : sums;
          const float* const from = wide_a + row * direct.a_row;
          Half* const to = c + c_index(first + row, column);
          if (half_b != nullptr) {
            direct.rows = height;
            direct.sums = sum;
            direct.result = is_last ? to : nullptr;
            half_tile(direct, from, half_b);
            if (is_last) clear_padding(to, height, used);
            continue;
          }
          tiles_[height == row_step_][column + column_step_ >= shape_.n][is_last][piece > 0](from, copied_b,
                                                                                             sum);
          if (is_last) finish(sum, sum_columns_, height, used, wide, to);
        }
      }
    }
  }
}

void HalfProduct::run_few_rows(const Half* a, const Half* b, const Half* bias, Half* c, float* scratch,
                               Range columns, StopMeter& meter) const {
  const int64_t m = shape_.m, k = shape_.k, width = round_up(column_step_, 16);
  float* const wide_a = scratch;
  Half* const padded = reinterpret_cast<Half*>(wide_a + round_up(m * k, 16));
  widen_rows(a, shape_.lda, wide_a, k, m, k);
  HalfTile tile;
  tile.rows = m;
  tile.depth = tile.a_row = k;
  tile.a_depth = 1;
  tile.ld_result = ldc_;
  tile.activation = shape_.activation;
  for (int64_t column = columns.first; column < columns.last; column += column_step_) {
    const int64_t used = std::min(column_step_, shape_.n - column);
    const Half* from;
    if (shape_.b.form == MatrixSource::Form::kPanels) {
      tile.ldb = column_step_;
      from = b + column * k;
    } else if (used % 16 == 0) {
      tile.ldb = shape_.b.stride;
      from = b + column;
    } else {
      pack_block(shape_.b, b, 0, k, column, used, padded, width);
      tile.ldb = width;
      from = padded;
    }
    float bias_space[64];
    tile.columns = used;
    tile.bias = wide_bias(bias == nullptr ? nullptr : bias + column, used, bias_space);
    tile.result = c + c_index(0, column);
    half_tile(tile, wide_a, from);
    if (meter.stops_products((m + 4) * used * k)) return;
  }
}

void HalfProduct::run_dots(const Half* a, const Half* b, const Half* bias, Half* c, float* scratch,
                           Range columns, StopMeter& meter) const {
  const int64_t m = shape_.m, k = shape_.k;
  float* const wide_a = scratch;
  float* const sums = wide_a + round_up(m * k, 16);
  widen_rows(a, shape_.lda, wide_a, k, m, k);
  DotShape dot;
  dot.rows = m;
  dot.depth = dot.lda = k;
  dot.ldc = 64;
  if (shape_.b.form == MatrixSource::Form::kTransposedPanels) {
    // Stored is [n, k] in panels over k: rows of a panel are its width apart, panels n rows.
    dot.segment = dot.ldb = panel_width(k);
    dot.segment_stride = dot.segment * shape_.n;
  } else {
    dot.segment = k;
    dot.ldb = shape_.b.stride;
  }
  for (int64_t column = columns.first; column < columns.last; column += 64) {
    dot.columns = std::min<int64_t>(64, columns.last - column);
    dot_tile(dot, wide_a, b + column * dot.ldb, sums);
    float bias_space[64];
    finish(sums, 64, m, dot.columns,
           wide_bias(bias == nullptr ? nullptr : bias + column, dot.columns, bias_space),
           c + c_index(0, column));
    if (meter.stops_products((m + 4) * dot.columns * k)) return;
  }
}

}  // namespace ipu::kernels
