// See step_product.h.
#include "kernels/recurrent/step_product.h"

#include <algorithm>

namespace ipu::kernels {
namespace {

// Copying a weight that lies across costs what 8 rows of a product do, and saves it in every step from here
// on; fewer rows read such a weight by dot products, as fast as memory delivers it.
constexpr int64_t kRowsThatCopy = 3, kStepsThatCopy = 4;
// Most rows for which halves are widened again in each step: less is read from the caches.
constexpr int64_t kDirectRows = 4;
constexpr int64_t kBlockRows = 256;  // of a panel that are copied while they stay in the first cache

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

StepProduct::StepProduct(const MatrixSource& b, DType dtype, int64_t rows, int64_t last_rows, int64_t steps,
                         int64_t pitch)
    : stored_(b), is_half_(dtype == DType::kF16), rows_(rows), pitch_(pitch == 0 ? b.columns : pitch) {
  reads_halves_ = is_half_ && !b.is_transposed() && rows <= kDirectRows && b.columns % 16 == 0;
  copies_ = (is_half_ && !reads_halves_) ||
            (!is_half_ && b.is_transposed() && rows >= kRowsThatCopy && steps >= kStepsThatCopy);
  if (reads_halves_) return;
  MatrixSource read = b;
  if (copies_) {
    read.form = MatrixSource::Form::kPanels;
    read.stride = 0;
    panel_bytes_ = round_up(
        panel_count(b.columns) * panel_width(b.columns) * b.rows * static_cast<int64_t>(sizeof(float)), 64);
  }
  ProductShape shape;
  shape.n = b.columns;
  shape.k = b.rows;
  shape.lda = b.rows;
  shape.b = read;
  shape.ldc = pitch_;
  shape.max_lanes = 1;  // lanes are blocks of rows already
  shape.m = rows;
  whole_ = Product(shape);
  shape.m = last_rows;
  last_ = Product(shape);
  work_bytes_ = std::max(whole_.scratch_bytes(), last_.scratch_bytes());
}

bool StepProduct::load(const std::byte* weight, std::byte* scratch, StopMeter& meter) const {
  if (!copies_) return true;
  const int64_t width = panel_width(stored_.columns), depth = stored_.rows;
  auto* const to = reinterpret_cast<float*>(scratch);
  for (int64_t column = 0; column < stored_.columns; column += width)
    for (int64_t row = 0; row < depth; row += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, depth - row),
                    columns = std::min(width, stored_.columns - column);
      float* const block = to + column * depth + row * width;
      if (is_half_)
        pack_block(stored_, reinterpret_cast<const Half*>(weight), row, rows, column, columns, block, width);
      else
        pack_block(stored_, reinterpret_cast<const float*>(weight), row, rows, column, columns, block, width);
      if (meter.stops(rows * width)) return false;
    }
  return true;
}

void StepProduct::run(const float* a, const std::byte* weight, float* c, int64_t rows, std::byte* scratch,
                      StopMeter& meter) const {
  if (reads_halves_) return run_on_halves(a, reinterpret_cast<const Half*>(weight), c, rows, meter);
  const auto* b = reinterpret_cast<const float*>(copies_ ? scratch : weight);
  (rows == rows_ ? whole_ : last_).run(a, b, nullptr, c, scratch + panel_bytes_, 0, meter);
}

void StepProduct::run_on_halves(const float* a, const Half* weight, float* c, int64_t rows,
                                StopMeter& meter) const {
  const int64_t depth = stored_.rows;
  const bool panels = stored_.form == MatrixSource::Form::kPanels;
  const int64_t width = panels ? panel_width(stored_.columns) : 64;
  HalfTile tile;
  tile.rows = rows;
  tile.depth = tile.a_row = depth;
  tile.a_depth = 1;
  tile.ldb = panels ? width : stored_.stride;
  tile.ld_sums = pitch_;
  for (int64_t column = 0; column < stored_.columns; column += width) {
    tile.columns = std::min(width, stored_.columns - column);
    tile.sums = c + column;
    half_tile(tile, a, weight + (panels ? column * depth : column));
    if (meter.stops_products((rows + 4) * tile.columns * depth)) return;
  }
}

}  // namespace ipu::kernels
