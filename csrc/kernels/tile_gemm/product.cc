// The blocked loops of product.h. Constants were chosen on the project's reference machine (docs of libxsmm's
// figures: 117 GFLOP/s a core, 1 MB second cache); another choice changes speed only, except the length of a
// piece of k.
#include "kernels/tile_gemm/product.h"

#include <algorithm>
#include <cstring>

#include "kernels/lanes.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestPiece = 512;   // of k: changes bits, see product.h
constexpr int64_t kDotRows = 13;         // most rows for which dot products are worth it
constexpr int64_t kDotDepthPerRow = 14;  // their sums cost as much as 7 terms, packing B as much as 8 rows
constexpr int64_t kDotFloats = 6144;     // of B that stay in the first cache while more rows of A pass by
constexpr int64_t kFewDotRows = 7;       // than these, which read B once or twice
constexpr int64_t kDotColumns = 64;      // most columns at a time
constexpr int64_t kTransposedRows = 14;  // from here on transposing A and C pays
constexpr int64_t kPackRowsOfB = 96;     // from here on copying plain rows of B into panels pays,
constexpr int64_t kPackFarRowsOfB = 8, kFarStride = 2048;  // or from here on, if they lie so far apart
constexpr int64_t kBlockFloats = 1 << 19;                  // of A that stay in the caches while B passes by
constexpr int64_t kSmallFloats = 1 << 18;                  // of B: 1 MB, half of what one processor caches
constexpr int64_t kRowStrip = 2048;                        // columns of C kept hot by the one-row method
constexpr int64_t kAliasFloats =
    256;                            // rows of A that lie a multiple of 1 KB apart share few sets of a cache
constexpr int64_t kCopyDepth = 64;  // from here on copying such rows pays,
constexpr int64_t kCopyColumns = 128;                       // for as many columns
constexpr int64_t kCopiedRows = 256, kCopiedColumns = 512;  // of C for which a piece of A is copied at a time
constexpr int64_t kNearFloats = 1 << 20;   // of A that stay near, however many lanes read them
constexpr int64_t kFarRows = 1024;         // between plain rows of which each lies in a page of its own: of a
constexpr int64_t kCopiedPlainRows = 128;  // larger A so many are copied at a time,
constexpr int64_t kCopyPlainColumns = 256;  // where they serve as many columns

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }

// From line to line of a copy of `floats` each: all sets of a cache.
int64_t copy_pitch(int64_t floats) {
  const int64_t pitch = round_up(floats, 16) + 16;
  return pitch % kAliasFloats == 0 ? pitch + 16 : pitch;
}

}  // namespace

double product_microseconds(int64_t m, int64_t n, int64_t k) {
  constexpr double kFlopsPerMicrosecond = 110e3, kBytesPerMicrosecond = 40e3;
  const double rows = static_cast<double>(m), columns = static_cast<double>(n),
               depth = static_cast<double>(k);
  return std::max(2 * rows * columns * depth / kFlopsPerMicrosecond,
                  4 * (rows * depth + depth * columns + rows * columns) / kBytesPerMicrosecond);
}

Product::Product(const ProductShape& shape) : shape_(shape) {
  IPU_CHECK(shape.b.rows == shape.k && shape.b.columns == shape.n, "B of a product must be [k, n]");
  choose_method();
  const bool panels = shape_.b.form == MatrixSource::Form::kPanels;
  if (shape_.packed_c || panels)
    column_step_ = panel_width(shape_.n);
  else
    column_step_ = std::min<int64_t>(64, std::max<int64_t>(1, shape_.n));
  row_step_ = std::min<int64_t>(64, std::max<int64_t>(1, shape_.m));
  pieces_ = std::max<int64_t>(1, divide_up(shape_.k, kLongestPiece));
  piece_ = pieces_ == 1 ? shape_.k : round_up(divide_up(shape_.k, pieces_), 16);
  pieces_ = std::max<int64_t>(1, divide_up(shape_.k, std::max<int64_t>(1, piece_)));
  ldc_ = shape_.packed_c ? column_step_ : shape_.ldc;
  copies_a_ = copies_lines_of_a();
  copy_pitch_ = copy_pitch(shape_.transposed_a ? kCopiedRows : piece_);
  choose_lanes();
  if (shape_.m == 0 || shape_.n == 0 || shape_.k == 0) return;

  int64_t floats = 0;
  if (method_ == Method::kTiles || method_ == Method::kPackedTiles) {
    make_tiles();
    if (pieces_ > 1) floats += row_step_ * column_step_;
    if (method_ == Method::kPackedTiles) floats += piece_ * round_up(column_step_, 16);
    if (copies_a_) floats += (shape_.transposed_a ? piece_ : kCopiedPlainRows) * copy_pitch_;
  } else if (method_ == Method::kTransposed) {
    TransposedShape t;
    t.m = shape_.m;
    t.n = shape_.n;
    t.k = shape_.k;
    t.lda = shape_.lda;
    t.b = shape_.b;
    t.piece = piece_;
    t.lane_columns = divide_up(divide_up(shape_.n, column_step_), lanes_n_) * column_step_;
    t.provider = shape_.provider;
    transposed_ = TransposedProduct(t);
    floats = transposed_.scratch_floats();
  } else if (method_ == Method::kRow && pieces_ > 1) {
    floats += kRowStrip;
  }
  scratch_bytes_ = round_up(floats * static_cast<int64_t>(sizeof(float)), 64);
}

void Product::choose_method() {
  const bool plain = !shape_.transposed_a && !shape_.packed_c;
  const bool few_rows =
      plain && shape_.m <= kDotRows && (shape_.m <= 2 || shape_.k >= kDotDepthPerRow * shape_.m);
  if (plain && TransposedProduct::suits(shape_.b, shape_.m, shape_.k, kTransposedRows))
    method_ = Method::kTransposed;
  else if (shape_.b.is_transposed())
    method_ = few_rows ? Method::kDots : Method::kPackedTiles;
  else if (shape_.b.form == MatrixSource::Form::kPanels)
    method_ = Method::kTiles;
  else if (shape_.m == 1 && !shape_.packed_c)
    method_ = Method::kRow;
  else
    method_ =
        shape_.b.stride > 64 && shape_.m >= (shape_.b.stride < kFarStride ? kPackRowsOfB : kPackFarRowsOfB)
            ? Method::kPackedTiles
            : Method::kTiles;
}

bool Product::copies_lines_of_a() const {
  if ((method_ != Method::kTiles && method_ != Method::kPackedTiles) || shape_.k < kCopyDepth) return false;
  if (shape_.transposed_a)
    return method_ == Method::kPackedTiles && shape_.lda % kAliasFloats == 0 && shape_.n >= kCopyColumns;
  return shape_.lda >= kFarRows && shape_.m >= kCopiedPlainRows && shape_.m * shape_.k > kNearFloats &&
         shape_.n >= kCopyPlainColumns;
}

void Product::choose_lanes() {
  const int64_t column_tiles = divide_up(shape_.n, column_step_), row_tiles = divide_up(shape_.m, row_step_);
  const double cost = product_microseconds(shape_.m, shape_.n, shape_.k);
  int wanted = lanes_for_cost(cost, column_tiles * row_tiles, shape_.max_lanes);
  if (method_ == Method::kTransposed) wanted = std::min(wanted, TransposedProduct::most_lanes(shape_.n));
  // A small B stays in the cache of each processor, and so do the rows of A and C from product to product.
  const bool rows_first = method_ == Method::kTiles && shape_.k * shape_.n <= kSmallFloats;
  const auto cut = [](int lanes, int64_t tiles) {
    return static_cast<int>(std::clamp<int64_t>(lanes, 1, std::max<int64_t>(1, tiles)));
  };
  if (copies_a_) {
    // A lane copies its rows of A and its columns of B: about as many, and half of the lanes where those would be few.
    constexpr int kEnoughLanes = 4;
    constexpr int64_t kFewTiles = 4;
    while (2 * lanes_m_ * lanes_n_ <= wanted) {
      const int64_t rows = row_tiles / lanes_m_, columns = column_tiles / lanes_n_;
      const bool is_enough = lanes_m_ * lanes_n_ >= std::max(kEnoughLanes, wanted / 2);
      if (std::max(rows, columns) < (is_enough ? 2 * kFewTiles : 2)) break;
      const bool by_rows = rows == columns ? row_tiles > column_tiles : rows > columns;
      (by_rows ? lanes_m_ : lanes_n_) *= 2;
    }
    return;
  }
  if (rows_first) lanes_m_ = cut(wanted, row_tiles);
  lanes_n_ = cut(wanted / lanes_m_, column_tiles);
  if (!rows_first) lanes_m_ = cut(wanted / lanes_n_, row_tiles);
}

void Product::make_tiles() {
  const int64_t n = shape_.n;
  const int64_t panels = divide_up(n, column_step_);
  const int64_t last_columns = n - (panels - 1) * column_step_;
  const int64_t last_piece = shape_.k - (pieces_ - 1) * piece_;
  for (int full : {0, 1}) {
    const int64_t rows = full ? row_step_ : shape_.m % row_step_;
    if (rows == 0) continue;
    for (int last : {0, 1}) {
      if (!last && panels == 1) continue;
      for (int final : {0, 1}) {
        if (!final && pieces_ == 1) continue;
        for (int partial : {0, 1}) {
          if (partial && pieces_ == 1) continue;
          TileShape t;
          t.rows = rows;
          t.columns = last ? last_columns : column_step_;
          t.depth = final ? last_piece : piece_;
          t.lda = copies_a_ ? copy_pitch_ : shape_.lda;
          t.transposed_a = shape_.transposed_a;
          if (method_ == Method::kPackedTiles)
            t.ldb = round_up(column_step_, 16);
          else
            t.ldb = shape_.b.form == MatrixSource::Form::kPanels ? column_step_ : shape_.b.stride;
          t.ldc = partial ? column_step_ : ldc_;
          tiles_[full][last][final][partial] = TileGemm(t, shape_.provider);
        }
      }
    }
  }
}

int64_t Product::c_index(int64_t row, int64_t column) const {
  return shape_.packed_c ? column * shape_.m + row * column_step_ : row * ldc_ + column;
}

Product::Range Product::part(int64_t count, int64_t grain, int parts, int index) {
  const int64_t grains = divide_up(count, grain);
  return {std::min(count, grains * index / parts * grain),
          std::min(count, grains * (index + 1) / parts * grain)};
}

void Product::run(const float* a, const float* b, const float* bias, float* c, std::byte* scratch, int lane,
                  StopMeter& meter, const float* addend) const {
  const End end{bias, addend};
  const Range rows = part(shape_.m, row_step_, lanes_m_, lane / lanes_n_);
  const Range columns = part(shape_.n, column_step_, lanes_n_, lane % lanes_n_);
  if (rows.first == rows.last || columns.first == columns.last) return;
  if (shape_.k == 0) {
    for (int64_t column = columns.first; column < columns.last; column += column_step_)
      for (int64_t row = rows.first; row < rows.last; ++row) {
        float* at = c + c_index(row, column);
        const int64_t count = std::min(column_step_, columns.last - column);
        std::memset(at, 0, static_cast<size_t>(shape_.packed_c ? column_step_ : count) * sizeof(float));
        finish(end, c, ldc_, row, column, 1, count);
        if (meter.stops(count)) return;
      }
    return;
  }
  switch (method_) {
    case Method::kTiles:
    case Method::kPackedTiles:
      return run_tiles(a, b, end, c, scratch, rows, columns, meter);
    case Method::kDots:
      return run_dots(a, b, end, c, rows, columns, meter);
    case Method::kTransposed:
      if (transposed_.run(a, b, c + columns.first, ldc_, reinterpret_cast<float*>(scratch), columns.first,
                          columns.last, meter))
        finish(end, c, ldc_, 0, columns.first, shape_.m, columns.last - columns.first);
      return;
    case Method::kRow:
      return run_row(a, b, end, c, scratch, columns, meter);
  }
}

void Product::run_tiles(const float* a, const float* b, const End& end, float* c, std::byte* scratch,
                        Range rows, Range columns, StopMeter& meter) const {
  Space space;
  space.block = reinterpret_cast<float*>(scratch);
  space.partial = space.block + (method_ == Method::kPackedTiles ? piece_ * round_up(column_step_, 16) : 0);
  if (copies_a_) return run_copied(a, b, end, c, space, rows, columns, meter);
  const int64_t row_block = std::max<int64_t>(256, kBlockFloats / shape_.k / row_step_ * row_step_);
  for (int64_t block_row = rows.first; block_row < rows.last; block_row += row_block) {
    const Range block{block_row, std::min(rows.last, block_row + row_block)};
    for (int64_t column = columns.first; column < columns.last; column += column_step_)
      for (int64_t piece = 0; piece < pieces_; ++piece) {
        const int64_t start = piece * piece_;
        const float* const from =
            shape_.transposed_a ? a + start * shape_.lda + block.first : a + block.first * shape_.lda + start;
        if (!run_column(from, shape_.transposed_a ? 1 : shape_.lda, b, end, c, space, block, column, piece,
                        meter))
          return;
      }
  }
}

// Pieces of a block of A are copied once for many columns of C, which wait for the next piece where they are.
void Product::run_copied(const float* a, const float* b, const End& end, float* c, const Space& space,
                         Range rows, Range columns, StopMeter& meter) const {
  float* const copy = space.partial + (pieces_ > 1 ? row_step_ * column_step_ : 0);
  const bool plain = !shape_.transposed_a;
  const int64_t most_rows = plain ? kCopiedPlainRows : kCopiedRows;
  for (int64_t row = rows.first; row < rows.last; row += most_rows) {
    const Range block{row, std::min(rows.last, row + most_rows)};
    for (int64_t first = columns.first; first < columns.last; first += kCopiedColumns)
      for (int64_t piece = 0; piece < pieces_; ++piece) {
        const int64_t start = piece * piece_, depth = std::min(piece_, shape_.k - start);
        const int64_t height = block.last - row, lines = plain ? height : depth;
        const float* const from = plain ? a + row * shape_.lda + start : a + start * shape_.lda + row;
        for (int64_t line = 0; line < lines; ++line)
          std::memcpy(copy + line * copy_pitch_, from + line * shape_.lda,
                      static_cast<size_t>(plain ? depth : height) * sizeof(float));
        if (meter.stops(depth * height)) return;
        for (int64_t column = first; column < std::min(columns.last, first + kCopiedColumns);
             column += column_step_)
          if (!run_column(copy, plain ? copy_pitch_ : 1, b, end, c, space, block, column, piece, meter))
            return;
      }
  }
}

// One piece of the sums of a block of rows and the columns of a tile. `a`: the first row's piece; rows `a_row` apart.
// False: the lane is to return.
bool Product::run_column(const float* a, int64_t a_row, const float* b, const End& end, float* c,
                         const Space& space, Range rows, int64_t column, int64_t piece,
                         StopMeter& meter) const {
  const int64_t width = std::min(column_step_, shape_.n - column), start = piece * piece_;
  const bool last_columns = column + column_step_ >= shape_.n, last_piece = piece == pieces_ - 1;
  const float* b_tile;
  if (method_ == Method::kPackedTiles) {
    pack_block(shape_.b, b, start, std::min(piece_, shape_.k - start), column, width, space.block,
               round_up(column_step_, 16));
    b_tile = space.block;
  } else if (shape_.b.form == MatrixSource::Form::kPanels) {
    b_tile = b + column * shape_.k + start * column_step_;
  } else {
    b_tile = b + start * shape_.b.stride + column;
  }
  for (int64_t row = rows.first; row < rows.last; row += row_step_) {
    const int64_t count = std::min(row_step_, shape_.m - row);
    if (meter.stops_products((count + 8) * width * piece_)) return false;
    const float* const a_tile = a + (row - rows.first) * a_row;
    float* const c_tile = c + c_index(row, column);
    const TileGemm& gemm = tile(count == row_step_, last_columns, last_piece, piece > 0);
    if (piece == 0) {
      gemm(a_tile, b_tile, c_tile);
    } else {
      gemm(a_tile, b_tile, space.partial);
      add_tile(c_tile, ldc_, space.partial, column_step_, count, width);
    }
    if (!last_piece) continue;
    finish(end, c, ldc_, row, column, count, width);
    if (shape_.packed_c && width < column_step_)
      for (int64_t i = 0; i < count; ++i)
        std::memset(c_tile + i * ldc_ + width, 0, static_cast<size_t>(column_step_ - width) * sizeof(float));
  }
  return true;
}

void Product::run_dots(const float* a, const float* b, const End& end, float* c, Range rows, Range columns,
                       StopMeter& meter) const {
  DotShape dot;
  dot.rows = rows.last - rows.first;
  dot.depth = shape_.k;
  dot.lda = shape_.lda;
  dot.ldc = ldc_;
  if (shape_.b.form == MatrixSource::Form::kTransposedPanels) {
    // Stored is [n, k] in panels over k: rows of a panel are its width apart, panels n rows.
    dot.segment = dot.ldb = panel_width(shape_.k);
    dot.segment_stride = dot.segment * shape_.n;
  } else {
    dot.segment = shape_.k;
    dot.ldb = shape_.b.stride;
  }
  for (int64_t column = columns.first; column < columns.last; column += dot_columns()) {
    dot.columns = std::min(dot_columns(), columns.last - column);
    float* const to = c + rows.first * ldc_ + column;
    dot_tile(dot, a + rows.first * shape_.lda, b + column * dot.ldb, to);
    finish(end, c, ldc_, rows.first, column, dot.rows, dot.columns);
    if (meter.stops_products((dot.rows + 4) * dot.columns * dot.depth)) return;
  }
}

int64_t Product::dot_columns() const {
  if (shape_.m <= kFewDotRows || shape_.b.form == MatrixSource::Form::kTransposedPanels) return kDotColumns;
  return std::clamp<int64_t>(kDotFloats / shape_.k / 4 * 4, 8, kDotColumns);
}

void Product::run_row(const float* a, const float* b, const End& end, float* c, std::byte* scratch,
                      Range columns, StopMeter& meter) const {
  const int64_t a_step = shape_.transposed_a ? shape_.lda : 1;
  float* const partial = reinterpret_cast<float*>(scratch);
  for (int64_t column = columns.first; column < columns.last; column += kRowStrip) {
    const int64_t width = std::min(kRowStrip, columns.last - column);
    for (int64_t start = 0; start < shape_.k; start += piece_) {
      row_product(a + start * a_step, a_step, b + start * shape_.b.stride + column, shape_.b.stride,
                  std::min(piece_, shape_.k - start), width, start == 0 ? c + column : partial);
      if (start > 0) add_tile(c + column, kRowStrip, partial, kRowStrip, 1, width);
      if (meter.stops_products(4 * piece_ * width)) return;
    }
    finish(end, c, kRowStrip, 0, column, 1, width);
  }
}

}  // namespace ipu::kernels
