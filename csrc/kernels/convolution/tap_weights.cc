// Packing of plain weights into the panels of a TapProduct. See tap_product.h.
#include <algorithm>
#include <cstring>

#include "kernels/convolution/tap_product.h"
#include "kernels/tile_gemm/panels.h"

namespace ipu::kernels {

template <class T>
void TapProduct::pack_panel(const Phase& phase, const T* weight, int64_t group, int64_t column, float* to,
                            float* block) const {
  const int64_t width = std::min(panel_width_, out_group_ - column), taps = shape_.weight_taps;
  if (width < panel_width_)
    std::memset(to, 0, static_cast<size_t>(phase.weight_rows * panel_width_) * sizeof(float));
  if (!shape_.swaps_channels) {
    // Plain rows are output channels, each [in_group][taps]: transpose by blocks, then put rows in tap order.
    const int64_t row_length = in_group_ * taps;
    const T* from = weight + (group * out_group_ + column) * row_length;
    std::vector<int64_t>::const_iterator begin = phase.weight_taps.begin(), end = phase.weight_taps.end();
    for (int64_t start = 0; start < row_length; start += kBlockRows) {
      const int64_t count = std::min(kBlockRows, row_length - start);
      copy_transposed(from + start, row_length, block, panel_width_, width, count);
      int64_t channel = start / taps, tap = start % taps;
      for (int64_t i = 0; i < count; ++i) {
        const auto found =
            phase.weight_taps.size() == static_cast<size_t>(taps) ? begin + tap : std::find(begin, end, tap);
        if (found != end)
          std::memcpy(to + ((found - begin) * in_group_ + channel) * panel_width_, block + i * panel_width_,
                      static_cast<size_t>(width) * sizeof(float));
        if (++tap == taps) {
          tap = 0;
          ++channel;
        }
      }
    }
    return;
  }
  // Plain rows are our input channels, each [out_group][taps].
  for (int64_t channel = 0; channel < in_group_; ++channel) {
    const T* from = weight + ((group * in_group_ + channel) * out_group_ + column) * taps;
    if (taps == 1) {
      copy_row(from, to + channel * panel_width_, width);
      continue;
    }
    copy_transposed(from, taps, block, panel_width_, width, taps);
    for (size_t i = 0; i < phase.weight_taps.size(); ++i)
      std::memcpy(to + (static_cast<int64_t>(i) * in_group_ + channel) * panel_width_,
                  block + phase.weight_taps[i] * panel_width_, static_cast<size_t>(width) * sizeof(float));
  }
}

// Packs the weights of an input gradient. They are panels of [taps * our outputs, our inputs], which it transposes
// block by block.
template <class T>
void TapProduct::pack_transposed_panel(const Phase& phase, const T* panels, int64_t column, float* to) const {
  const int64_t width = std::min(panel_width_, out_group_ - column), from_width = panel_width(in_group_);
  if (width < panel_width_)
    std::memset(to, 0, static_cast<size_t>(phase.weight_rows * panel_width_) * sizeof(float));
  const int64_t rows = shape_.weight_taps * out_group_;
  for (const int64_t tap : phase.weight_taps)
    for (int64_t first = 0; first < in_group_; first += from_width, to += from_width * panel_width_) {
      const int64_t count = std::min(from_width, in_group_ - first);
      copy_transposed(panels + (first / from_width * rows + tap * out_group_ + column) * from_width,
                      from_width, to, panel_width_, width, count);
      if (count < from_width) to -= (from_width - count) * panel_width_;
    }
}

bool TapProduct::pack_weights(const void* weight, int64_t first_panel, int64_t last_panel, float* packed,
                              float* block, StopMeter& meter) const {
  const auto* floats = static_cast<const float*>(weight);
  const auto* halves = static_cast<const Half*>(weight);
  for (int64_t panel = first_panel; panel < last_panel; ++panel, packed += packed_floats_)
    for (const Phase& phase : phases_) {
      if (phase.segments.empty()) continue;
      const int64_t group = panel / panels_per_group_, column = panel % panels_per_group_ * panel_width_;
      const int64_t size = phase.weight_rows * panel_width_;
      if (shape_.weight_is_packed && shape_.swaps_channels) {
        if (shape_.is_half)
          pack_transposed_panel(phase, halves, column, packed + phase.packed_at);
        else
          pack_transposed_panel(phase, floats, column, packed + phase.packed_at);
      } else if (shape_.weight_is_packed)
        copy_row(halves + panel * size, packed, size);
      else if (shape_.is_half)
        pack_panel(phase, halves, group, column, packed + phase.packed_at, block);
      else
        pack_panel(phase, floats, group, column, packed + phase.packed_at, block);
      if (meter.stops(size / 2)) return false;
    }
  return true;
}

}  // namespace ipu::kernels
