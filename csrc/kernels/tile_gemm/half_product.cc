// The loops of half_product.h. Tiles go by blocks of rows and pieces of k: a piece of A is widened once for
// all columns of a lane, and f32 sums of the whole block wait in scratch for the next piece.
#include "kernels/tile_gemm/half_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/lanes.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestPiece = 256, kPieceOfFewRows = 128;  // what is widened stays in the first cache
constexpr int64_t kDotRows = 24, kDotDepthPerRow = 14;         // half as many rows as in product.cc or less
constexpr int64_t kTransposedRows = 14;       // from here on transposing A and C pays, B in panels,
constexpr int64_t kTransposedPlainRows = 26;  // or from here on, B by rows
constexpr int64_t kWideRows = 24;             // from here on widening B into scratch pays
constexpr int64_t kShallow = 8;               // less depth: the sums are what costs, so none wait
constexpr int64_t kRowGrain = 16;             // rows by which lanes are cut where B is read where it is
constexpr int64_t kFewRows = 4;               // all of A is widened at once
constexpr int64_t kSumFloats = 1 << 17;       // of C that wait for the next piece, in the second cache
constexpr int64_t kBlockColumns = 512;        // of C for which rows of A are widened once
constexpr int64_t kAliasFloats = 256;         // lines of A a multiple of 1 KB apart share few sets of a cache

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
  const int64_t fewest = shape.b.is_packed() ? kTransposedRows : kTransposedPlainRows;
  if (plain && TransposedProduct::suits(shape.b, m, k, fewest))
    method_ = Method::kTransposed;
  else if (shape.b.is_transposed())
    method_ =
        plain && m <= kDotRows && (m <= 2 || k >= kDotDepthPerRow * m) ? Method::kDots : Method::kWideTiles;
  else if (plain && m <= kFewRows)
    method_ = Method::kFewRows;
  else
    method_ = m >= kWideRows && k >= kShallow ? Method::kWideTiles : Method::kTiles;

  choose_lanes();
  const int64_t lane_columns = divide_up(divide_up(n, column_step_), lanes_n_) * column_step_;
  const int64_t lane_rows = divide_up(divide_up(m, row_grain_), lanes_m_) * row_grain_;
  if (m == 0 || n == 0 || k == 0) return;

  const int64_t width = round_up(column_step_, 16);
  switch (method_) {
    case Method::kTiles:
    case Method::kWideTiles:
      pieces_ =
          divide_up(k, method_ == Method::kWideTiles && m <= 2 * row_step_ ? kPieceOfFewRows : kLongestPiece);
      piece_ = pieces_ == 1 ? k : round_up(divide_up(k, pieces_), 16);
      pieces_ = divide_up(k, piece_);
      block_columns_ = std::min(lane_columns, kBlockColumns / column_step_ * column_step_);
      block_rows_ = std::min({m, lane_rows, round_up(kSumFloats / block_columns_, row_step_)});
      a_pitch_ = !shape_.transposed_a              ? piece_
                 : block_rows_ % kAliasFloats == 0 ? block_rows_ + 16
                                                   : block_rows_;
      if (method_ == Method::kWideTiles) make_tiles();
      scratch_floats_ = wide_a_floats() + (reads_panels() ? 0 : round_up(piece_ * width, 16)) +
                        (pieces_ == 1 ? row_step_ : block_rows_ * (block_columns_ / column_step_)) * width;
      break;
    case Method::kFewRows:
      scratch_floats_ =
          round_up(m * k, 16) + round_up(m * round_up(column_step_, 16), 16) +
          round_up(k * round_up(column_step_, 16) / 2, 16);  // a padded copy of the last columns
      break;
    case Method::kDots:
      scratch_floats_ = round_up(m * k, 16) + m * 64;
      break;
    case Method::kTransposed:
      TransposedShape t;
      t.m = m;
      t.n = n;
      t.k = k;
      t.lda = shape.lda;
      t.b = shape.b;
      t.piece = std::min(k, kLongestPiece);
      t.one_chain = t.halves = true;
      t.lane_columns = lane_columns;
      t.provider = shape.provider;
      transposed_ = TransposedProduct(t);
      block_columns_ = std::min(lane_columns, kBlockColumns);
      scratch_floats_ = transposed_.scratch_floats() + m * round_up(block_columns_, 16);
      break;
  }
}

// Every lane widens its rows of A, and its columns of B where these go to scratch: the cut that does so least often,
// in units of a multiply-add, in half as many lanes as wanted at least and in all of them up to 4.
void HalfProduct::choose_lanes() {
  constexpr double kWiden = 6, kTranspose = 16, kReadNear = 1, kReadFar = 4;
  constexpr int64_t kNearHalves = 1 << 19;  // of B: what one processor caches
  const int64_t m = shape_.m, n = shape_.n, k = shape_.k;
  const bool tiles = method_ == Method::kTiles || method_ == Method::kWideTiles;
  const int64_t column_tiles = std::max<int64_t>(1, divide_up(n, column_step_));
  const int64_t grain = method_ == Method::kTiles ? kRowGrain : row_step_;
  row_grain_ = std::min(grain, row_step_);
  const int64_t row_tiles = std::max<int64_t>(1, divide_up(m, row_grain_));
  int wanted = lanes_for_cost(product_microseconds(m, n, k), column_tiles * row_tiles, shape_.max_lanes);
  if (method_ == Method::kTransposed) wanted = std::min(wanted, TransposedProduct::most_lanes(n));
  lanes_n_ = static_cast<int>(std::min<int64_t>(wanted, column_tiles));
  if (!tiles || wanted == 1) return;
  const double per_b = method_ == Method::kWideTiles ? (shape_.b.is_transposed() ? kTranspose : kWiden)
                       : k * n <= kNearHalves        ? kReadNear
                                                     : kReadFar;
  double least = 0;
  for (int by_rows = 1; by_rows <= std::min<int64_t>(wanted, row_tiles); ++by_rows)
    for (int by_columns = 1; by_columns <= std::min<int64_t>(wanted / by_rows, column_tiles); ++by_columns) {
      if (by_rows * by_columns < std::max(std::min(wanted, 4), (wanted + 1) / 2)) continue;
      const auto rows = static_cast<double>(std::min(m, divide_up(row_tiles, by_rows) * row_grain_));
      const auto columns =
          static_cast<double>(std::min(n, divide_up(column_tiles, by_columns) * column_step_));
      const double blocks = std::ceil(rows * std::min(columns, double{kBlockColumns}) / double{kSumFloats});
      const double column_blocks = std::ceil(columns / double{kBlockColumns});
      const double cost =
          by_rows * by_columns * (rows * columns + kWiden * rows * column_blocks + per_b * columns * blocks);
      if (least != 0 && cost >= least) continue;
      least = cost;
      lanes_m_ = by_rows;
      lanes_n_ = by_columns;
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
          t.lda = a_pitch_;
          t.ldb = round_up(column_step_, 16);
          t.ldc = t.ldb;
          t.accumulate = later != 0;
          if ((!last && n <= column_step_) || (later && pieces_ == 1) || (!final && pieces_ == 1)) continue;
          tiles_[full][last][final][later] = TileGemm(t, shape_.provider);
        }
  }
}

int64_t HalfProduct::wide_a_floats() const {
  return round_up(a_pitch_ * (shape_.transposed_a ? piece_ : block_rows_), 16);
}

int64_t HalfProduct::c_index(int64_t row, int64_t column) const {
  return shape_.packed_c ? column * shape_.m + row * column_step_ : row * ldc_ + column;
}

HalfProduct::Range HalfProduct::part(int64_t count, int64_t grain, int parts, int index) {
  const int64_t grains = divide_up(count, grain);
  return {std::min(count, grains * index / parts * grain),
          std::min(count, grains * (index + 1) / parts * grain)};
}

// The bias of `columns` <= 64 columns from `column` on as floats for whole vectors; null: none.
const float* HalfProduct::wide_bias(const Half* bias, int64_t column, int64_t columns, float* space) {
  if (bias == nullptr) return nullptr;
  widen_rows(bias + column, columns, space, columns, 1, columns);
  std::fill(space + columns, space + 64, 0.0f);
  return space;
}

void HalfProduct::clear_padding(Half* to, int64_t rows, int64_t columns) const {
  if (!shape_.packed_c || columns == column_step_) return;
  for (int64_t i = 0; i < rows; ++i)
    std::memset(to + i * ldc_ + columns, 0, static_cast<size_t>(column_step_ - columns) * sizeof(Half));
}

void HalfProduct::finish(const Target& target, const float* sums, int64_t ld, int64_t row, int64_t column,
                         int64_t rows, int64_t columns, const float* bias) const {
  const int64_t at = c_index(row, column);
  const HalfEnd end{bias, shape_.activation, target.addend == nullptr ? nullptr : target.addend + at, ldc_};
  finish_halves(end, sums, ld, rows, columns, target.c + at);
  clear_padding(target.c + at, rows, columns);
}

void HalfProduct::run(const Half* a, const Half* b, const Half* bias, Half* c, std::byte* scratch, int lane,
                      StopMeter& meter, const Half* addend) const {
  const Target target{bias, addend, c};
  const Range rows = part(shape_.m, row_grain_, lanes_m_, lane / lanes_n_);
  const Range columns = part(shape_.n, column_step_, lanes_n_, lane % lanes_n_);
  if (rows.first == rows.last || columns.first == columns.last) return;
  if (shape_.k == 0) {
    float zeros[64], bias_space[64];
    for (int64_t column = columns.first; column < columns.last; column += column_step_)
      for (int64_t row = rows.first; row < rows.last; ++row) {
        const int64_t count = std::min(column_step_, columns.last - column);
        std::fill_n(zeros, 64, 0.0f);
        finish(target, zeros, 64, row, column, 1, count, wide_bias(bias, column, count, bias_space));
        if (meter.stops(count)) return;
      }
    return;
  }
  auto* const space = reinterpret_cast<float*>(scratch);
  switch (method_) {
    case Method::kTiles:
    case Method::kWideTiles:
      return run_tiles(a, b, target, space, rows, columns, meter);
    case Method::kFewRows:
      return run_few_rows(a, b, target, space, columns, meter);
    case Method::kDots:
      return run_dots(a, b, target, space, columns, meter);
    case Method::kTransposed:
      return run_transposed(a, b, target, space, columns, meter);
  }
}

void HalfProduct::run_tiles(const Half* a, const Half* b, const Target& target, float* scratch, Range rows,
                            Range columns, StopMeter& meter) const {
  const int64_t width = round_up(column_step_, 16);
  float* const wide_a = scratch;
  float* const copied_b = wide_a + wide_a_floats();
  float* const sums = copied_b + (reads_panels() ? 0 : round_up(piece_ * width, 16));
  HalfTile direct;
  direct.a_row = shape_.transposed_a ? 1 : a_pitch_;
  direct.a_depth = shape_.transposed_a ? a_pitch_ : 1;
  direct.ld_sums = width;
  direct.ld_result = ldc_;
  direct.activation = shape_.activation;
  const int64_t blocks = divide_up(columns.last - columns.first, block_columns_);
  for (int64_t block = 0; block < blocks * divide_up(rows.last - rows.first, block_rows_); ++block) {
    const int64_t first = rows.first + block / blocks * block_rows_;
    const int64_t count = std::min(block_rows_, rows.last - first);
    const int64_t first_column = columns.first + block % blocks * block_columns_;
    const int64_t last_column = std::min(columns.last, first_column + block_columns_);
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      const int64_t start = piece * piece_, depth = std::min(piece_, shape_.k - start);
      const bool is_last = piece == pieces_ - 1;
      if (shape_.transposed_a)
        widen_rows(a + start * shape_.lda + first, shape_.lda, wide_a, a_pitch_, depth, count);
      else
        widen_rows(a + first * shape_.lda + start, shape_.lda, wide_a, a_pitch_, count, depth);
      direct.depth = depth;
      direct.continues = piece > 0;
      for (int64_t column = first_column; column < last_column; column += column_step_) {
        const int64_t used = std::min(column_step_, shape_.n - column);
        const Half* half_b = nullptr;
        if (method_ == Method::kWideTiles) {
          pack_block(shape_.b, b, start, depth, column, used, copied_b, width);
        } else if (reads_panels()) {
          half_b = b + column * shape_.k + start * column_step_;
          direct.ldb = column_step_;
        } else if (used % 16 != 0) {
          half_b = reinterpret_cast<Half*>(copied_b);
          direct.ldb = width;
          pack_block(shape_.b, b, start, depth, column, used, reinterpret_cast<Half*>(copied_b), width);
        } else {
          half_b = b + start * shape_.b.stride + column;
          direct.ldb = shape_.b.stride;
        }
        float bias_space[64];
        const float* const wide = is_last ? wide_bias(target.bias, column, used, bias_space) : nullptr;
        direct.columns = used;
        direct.bias = wide;
        for (int64_t row = 0; row < count; row += row_step_) {
          const int64_t height = std::min(row_step_, count - row);
          if (meter.stops_products((height + 8) * used * depth)) return;
          const int64_t waiting = (column - first_column) / column_step_ * block_rows_ + row;
          float* const sum = pieces_ > 1 ? sums + waiting * width : sums;
          const float* const from = wide_a + row * direct.a_row;
          if (half_b != nullptr) {
            Half* const to = target.c + c_index(first + row, column);
            const bool ends = is_last && is_simple(target);
            direct.rows = height;
            direct.sums = sum;
            direct.result = ends ? to : nullptr;
            half_tile(direct, from, half_b);
            if (ends) {
              clear_padding(to, height, used);
              continue;
            }
          } else {
            tiles_[height == row_step_][column + column_step_ >= shape_.n][is_last][piece > 0](from, copied_b,
                                                                                               sum);
          }
          if (is_last) finish(target, sum, width, first + row, column, height, used, wide);
        }
      }
    }
  }
}

void HalfProduct::run_few_rows(const Half* a, const Half* b, const Target& target, float* scratch,
                               Range columns, StopMeter& meter) const {
  const int64_t m = shape_.m, k = shape_.k, width = round_up(column_step_, 16);
  float* const wide_a = scratch;
  float* const sums = wide_a + round_up(m * k, 16);
  Half* const padded = reinterpret_cast<Half*>(sums + m * width);
  widen_rows(a, shape_.lda, wide_a, k, m, k);
  HalfTile tile;
  tile.rows = m;
  tile.depth = tile.a_row = k;
  tile.a_depth = 1;
  tile.ld_result = ldc_;
  tile.activation = shape_.activation;
  tile.sums = sums;
  tile.ld_sums = width;
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
    tile.bias = wide_bias(target.bias, column, used, bias_space);
    tile.result = is_simple(target) ? target.c + c_index(0, column) : nullptr;
    half_tile(tile, wide_a, from);
    if (tile.result == nullptr) finish(target, sums, width, 0, column, m, used, tile.bias);
    if (meter.stops_products((m + 4) * used * k)) return;
  }
}

void HalfProduct::run_dots(const Half* a, const Half* b, const Target& target, float* scratch, Range columns,
                           StopMeter& meter) const {
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
    finish(target, sums, 64, 0, column, m, dot.columns,
           wide_bias(target.bias, column, dot.columns, bias_space));
    if (meter.stops_products((m + 4) * dot.columns * k)) return;
  }
}

void HalfProduct::run_transposed(const Half* a, const Half* b, const Target& target, float* scratch,
                                 Range columns, StopMeter& meter) const {
  float* const sums = scratch + transposed_.scratch_floats();
  const int64_t pitch = round_up(block_columns_, 16);  // ends read whole vectors
  for (int64_t first = columns.first; first < columns.last; first += block_columns_) {
    const int64_t last = std::min(columns.last, first + block_columns_);
    if (!transposed_.run(a, b, sums, pitch, scratch, first, last, meter)) return;
    for (int64_t column = first; column < last; column += column_step_) {
      const int64_t used = std::min(column_step_, last - column);
      float bias_space[64];
      finish(target, sums + (column - first), pitch, 0, column, shape_.m, used,
             wide_bias(target.bias, column, used, bias_space));
    }
  }
}

}  // namespace ipu::kernels
