// See depthwise.h.
#include "kernels/convolution/depthwise.h"

#include <algorithm>
#include <utility>

#include "kernels/convolution/depthwise_loops.h"
#include "kernels/convolution/geometry.h"
#include "kernels/tile_gemm/half_rows.h"

namespace ipu::kernels {
namespace {

int64_t columns_of(const TapPhase& phase, int64_t width) {
  return std::max<int64_t>(0, divide_up(width - phase.first_column, phase.column_step));
}

}  // namespace

DepthwiseProduct::DepthwiseProduct(TapProductShape shape)
    : shape_(std::move(shape)),
      channels_(shape_.out.channels),
      multiplier_(shape_.out.channels / shape_.in.channels) {
  int64_t most_taps = 0;
  for (const TapPhase& phase : shape_.phases) {
    most_taps = std::max(most_taps, static_cast<int64_t>(phase.taps.size()));
    const int64_t columns = columns_of(phase, shape_.out.width);
    for (const Tap& tap : phase.taps) {
      pad_left_ = std::max(pad_left_, -tap.column);
      pad_right_ =
          std::max(pad_right_, (columns - 1) * shape_.in_column_step + tap.column - (shape_.in.width - 1));
    }
  }
  lanes_ =
      lanes_for_cost(8 * shape_.cost, shape_.batch * shape_.out.height);  // far from the peak of a product
  weight_floats_ = round_up(shape_.weight_taps * channels_, 16);
  rows_floats_ = round_up(shape_.in.height * (pad_left_ + shape_.in.width + pad_right_) * channels_, 16);
  narrow_floats_ = multiplier_ == 1 ? 0 : round_up(rows_floats_ / multiplier_, 16);
  row_floats_ = shape_.out.is_direct() ? 0 : round_up(shape_.out.elements(), 16);
  tap_slots_ = round_up(most_taps, 16);
  bias_floats_ = shape_.is_half ? round_up(channels_, 16) : 0;
  scratch_floats_ = weight_floats_ + bias_floats_ + rows_floats_ + row_floats_ +
                    4 * tap_slots_  // two lists of pointers
                    + narrow_floats_;
}

void DepthwiseProduct::run(const void* input, const void* weight, const EndOperands& operands, void* output,
                           std::byte* scratch, int lane, StopMeter& meter) const {
  float* const weights = reinterpret_cast<float*>(scratch);
  float* const wide_bias = weights + weight_floats_;
  float* const rows = wide_bias + bias_floats_;
  float* const result = rows + rows_floats_;
  const float** const taps = reinterpret_cast<const float**>(result + row_floats_);
  const float** const tap_weights = taps + tap_slots_;
  float* const loaded = multiplier_ == 1 ? rows : reinterpret_cast<float*>(tap_weights + tap_slots_);
  TileEnd ends{operands.scale, static_cast<const float*>(operands.bias), operands.addend, shape_.activation};
  if (shape_.is_half) {
    widen_transposed(static_cast<const Half*>(weight), shape_.weight_taps, weights, channels_, channels_,
                     shape_.weight_taps);
    if (operands.bias != nullptr) {
      widen_rows(static_cast<const Half*>(operands.bias), channels_, wide_bias, channels_, 1, channels_);
      ends.bias = wide_bias;
    }
  } else {
    transpose_tile(static_cast<const float*>(weight), shape_.weight_taps, weights, channels_, channels_,
                   shape_.weight_taps);
  }
  const int64_t total = shape_.batch * shape_.out.height;
  const int64_t first = total * lane / lanes_, last = total * (lane + 1) / lanes_;
  const int64_t pitch = (pad_left_ + shape_.in.width + pad_right_) * channels_;
  for (int64_t at = first; at < last;) {
    const int64_t image = at / shape_.out.height, start = at % shape_.out.height;
    const int64_t end = std::min(shape_.out.height, start + last - at);
    // Input rows that the output rows [start, end) read.
    int64_t low = shape_.in.height, high = 0;
    for (const TapPhase& phase : shape_.phases) {
      if (phase.taps.empty()) continue;
      const int64_t from = std::max<int64_t>(0, divide_up(start - phase.first_row, phase.row_step));
      const int64_t to = divide_up(end - phase.first_row, phase.row_step);
      if (from >= to) continue;
      low = std::min(low, from * shape_.in_row_step + phase.taps.front().row);
      high = std::max(high, (to - 1) * shape_.in_row_step + phase.taps.back().row + 1);
    }
    low = std::clamp<int64_t>(low, 0, shape_.in.height);
    high = std::clamp<int64_t>(high, low, shape_.in.height);
    if (!load_rows(shape_.in, shape_.in.image(input, image), low, high, pad_left_, pad_right_, loaded, meter))
      return;
    if (multiplier_ > 1)
      for (int64_t i = 0; i < (high - low) * pitch / multiplier_; ++i)
        std::fill_n(rows + i * multiplier_, multiplier_, loaded[i]);
    void* const image_out = shape_.out.image(output, image);
    float* const target = shape_.out.is_direct() ? static_cast<float*>(image_out) : result;
    const int64_t target_first = shape_.out.is_direct() ? 0 : start;
    for (const TapPhase& phase : shape_.phases) {
      const int64_t columns = columns_of(phase, shape_.out.width);
      for (int64_t index = std::max<int64_t>(0, divide_up(start - phase.first_row, phase.row_step));;
           ++index) {
        const int64_t row = phase.first_row + index * phase.row_step;
        if (row >= end) break;
        DepthwiseRow call{
            columns,     channels_, shape_.in_column_step * channels_, phase.column_step * channels_, taps,
            tap_weights, 0};
        for (const Tap& tap : phase.taps) {
          const int64_t in_row = index * shape_.in_row_step + tap.row;
          if (in_row < 0 || in_row >= shape_.in.height) continue;
          taps[call.count] = rows + (in_row - low) * pitch + (tap.column + pad_left_) * channels_;
          tap_weights[call.count++] = weights + tap.weight * channels_;
        }
        float* const out =
            target + ((row - target_first) * shape_.out.width + phase.first_column) * channels_;
        depthwise_row(call, out);
        const int64_t element = ends.addend == nullptr ? 0 : out - static_cast<const float*>(output);
        end_tile(out, phase.column_step * channels_, columns, channels_, ends.at(0, element));
        if (meter.stops((columns * channels_ + 16) * (call.count + 2) / 4)) return;
      }
    }
    if (!shape_.out.is_direct() &&
        !store_rows(shape_.out, result, channels_, start, end, 0, channels_, image_out, meter))
      return;
    at += end - start;
  }
}

}  // namespace ipu::kernels
