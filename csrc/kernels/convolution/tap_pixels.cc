// TapProduct on few pixels: the rows of a tile are the pixels of an image that meet a tap inside it, so there is
// neither padding nor a copy of the input, and the weights of a tap are read once for all of them. See tap_product.h
// and pixel_tile.h.
#include <algorithm>
#include <cstring>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/pixel_tile.h"
#include "kernels/convolution/tap_product.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kMostPixels = 64;  // of an image: their sums fill half of the first cache
constexpr int64_t kMostImages = 3;   // above, tiles of one pixel of several images

}  // namespace

bool TapProduct::suits_pixels() const {
  if (shape_.batch > kMostImages || shape_.out.height * shape_.out.width > kMostPixels || out_group_ == 0 ||
      out_group_ % PixelTile::kColumns != 0)
    return false;
  if (std::any_of(phases_.begin(), phases_.end(), [](const Phase& phase) { return phase.merges_taps; }))
    return false;
  // One tap reads its weights in one stream, which tiles of neighbouring pixels do as well.
  return std::any_of(phases_.begin(), phases_.end(),
                     [](const Phase& phase) { return phase.segments.size() > 1; });
}

void TapProduct::plan_pixels() {
  is_by_pixel_ = true;
  widens_pieces_ = shape_.is_half && shape_.weight_is_packed && !shape_.swaps_channels;
  if (widens_pieces_) copies_weights_ = false;
  rows_floats_ = shape_.in.is_direct() ? 0 : round_up(shape_.in.elements(), 16);
  out_floats_ = shape_.out.is_direct() ? 0 : round_up(shape_.out.elements(), 16);
  partial_floats_ = kMostPixels * PixelTile::kColumns;
}

// Output rows [start, until) of an image.
bool TapProduct::run_pixel_rows(const Work& work, const float* in, float* out, int64_t start, int64_t until,
                                StopMeter& meter) const {
  for (int64_t panel = work.first_panel; panel < work.last_panel; ++panel)
    for (const Phase& phase : phases_)
      if (!run_pixels(work, phase, panel, in, out, start, until, meter)) return false;
  return true;
}

// `tile` has its pixels, whose places `a` this may move.
void TapProduct::add_segment(const Work& work, const Phase& phase, int64_t panel, int64_t segment,
                             PixelTile& tile, const float** a) const {
  const int64_t weight_row = phase.segments[static_cast<size_t>(segment)].weight_row;
  const int64_t in_panel = weight_row * PixelTile::kColumns;
  const int64_t before = panel * phase.weight_rows * PixelTile::kColumns;  // of a packed operand
  if (!widens_pieces_) {
    tile.depth = phase.depth;
    tile.b = (copies_weights_ ? work.packed + (panel - work.first_panel) * packed_floats_ + phase.packed_at
                              : work.packed + before) +
             in_panel;
    if (segment + 1 < static_cast<int64_t>(phase.segments.size()))
      tile.ahead = tile.b + phase.depth * PixelTile::kColumns;
    add_pixel_tile(tile);
    return;
  }
  // A piece stays in the first cache while all pixels pass by; the chains go on in the sums.
  tile.b = work.block;
  for (int64_t first = 0; first < phase.depth; first += tile.depth) {
    tile.depth = std::min(kBlockRows, phase.depth - first);
    const int64_t count = tile.depth * PixelTile::kColumns;
    copy_row(work.halves + before + in_panel + first * PixelTile::kColumns, work.block, count);
    add_pixel_tile(tile);
    for (int64_t pixel = 0; pixel < tile.rows; ++pixel) a[pixel] += tile.depth;
  }
}

bool TapProduct::run_pixels(const Work& work, const Phase& phase, int64_t panel, const float* in, float* out,
                            int64_t start, int64_t until, StopMeter& meter) const {
  const int64_t from = std::max<int64_t>(0, divide_up(start - phase.first_row, phase.row_step));
  const int64_t to = std::min(phase.rows, divide_up(until - phase.first_row, phase.row_step));
  if (from >= to || phase.columns == 0) return true;
  const int64_t group = panel / panels_per_group_;
  const int64_t channel = panel * PixelTile::kColumns;  // whole panels
  const int64_t segments = static_cast<int64_t>(phase.segments.size());
  const int64_t pixels = (to - from) * phase.columns;
  auto out_at = [&](int64_t pixel) {
    const int64_t row = phase.first_row + (from + pixel / phase.columns) * phase.row_step;
    const int64_t column = phase.first_column + pixel % phase.columns * phase.column_step;
    return out + ((row - start) * shape_.out.width + column) * shape_.out.channels + channel;
  };
  const auto panel_bytes = static_cast<size_t>(PixelTile::kColumns) * sizeof(float);
  bool written[kMostPixels] = {}, met[kMostPixels];  // by any piece, by this piece
  for (int64_t piece = 0; piece < segments; piece += phase.segments_per_piece) {
    const int64_t piece_end = std::min(segments, piece + phase.segments_per_piece);
    std::fill(met, met + pixels, false);
    std::memset(work.partial, 0, static_cast<size_t>(pixels) * panel_bytes);
    for (int64_t s = piece; s < piece_end; ++s) {
      const Segment& segment = phase.segments[static_cast<size_t>(s)];
      const float* a[kMostPixels];
      float* c[kMostPixels];
      PixelTile tile{a, c};
      for (int64_t index = from, pixel = 0; index < to; ++index) {
        const int64_t row = index * shape_.in_row_step + segment.row;
        for (int64_t column = 0; column < phase.columns; ++column, ++pixel) {
          const int64_t in_column = column * shape_.in_column_step + segment.column;
          if (row < 0 || row >= shape_.in.height || in_column < 0 || in_column >= shape_.in.width) continue;
          a[tile.rows] = in + (row * shape_.in.width + in_column) * shape_.in.channels + group * in_group_ +
                         segment.channel;
          c[tile.rows++] = work.partial + pixel * PixelTile::kColumns;
          met[pixel] = true;
        }
      }
      if (tile.rows == 0) continue;
      add_segment(work, phase, panel, s, tile, a);
      if (meter.stops_products(tile.rows * phase.depth * PixelTile::kColumns)) return false;
    }
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      if (!met[pixel]) continue;
      const float* const sums = work.partial + pixel * PixelTile::kColumns;
      float* const c = out_at(pixel);
      end_tile(c, PixelTile::kColumns, 1, PixelTile::kColumns,
               piece_end == segments ? work.end_of(channel, c) : TileEnd(),
               {sums, PixelTile::kColumns, !written[pixel]});
      written[pixel] = true;
    }
  }
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    if (segments > 0 && met[pixel]) continue;  // by the last piece: it has ended
    float* const c = out_at(pixel);
    if (!written[pixel]) std::memset(c, 0, panel_bytes);
    end_tile(c, PixelTile::kColumns, 1, PixelTile::kColumns, work.end_of(channel, c));
  }
  return !meter.stops(pixels * PixelTile::kColumns);
}

}  // namespace ipu::kernels
