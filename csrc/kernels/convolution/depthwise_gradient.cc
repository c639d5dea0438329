// See depthwise_gradient.h.
#include "kernels/convolution/depthwise_gradient.h"

#include <algorithm>
#include <cstring>

#include "kernels/convolution/depthwise_gradient_loops.h"
#include "kernels/convolution/image_rows.h"
#include "kernels/isa.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kChannels = DepthwiseTaps::kChannels;
constexpr int64_t kChunkPixels = 256;  // of output, whose copies stay in the first caches: changes bits
constexpr int64_t kFewGroups = 4;      // of channels; below, lanes cut rows of the kernel too
constexpr double kFlopsPerMicrosecond = 40e3, kElementsPerMicrosecond = 2e3;

// Pixels [column, column + count) of a row of `image`, channels [channel, channel + width), to [pixel][kChannels].
void load_pixels(const ImageShape& shape, const void* image, int64_t row, int64_t column, int64_t count,
                 int64_t channel, int64_t width, float* to) {
  const auto* floats = static_cast<const float*>(image);
  const auto* halves = static_cast<const Half*>(image);
  if (width < kChannels) std::memset(to, 0, static_cast<size_t>(count * kChannels) * sizeof(float));
  if (!shape.channels_last) {
    const int64_t plane = shape.height * shape.width;
    const int64_t at = channel * plane + row * shape.width + column;
    if (shape.is_half)
      transpose_tile(halves + at, plane, to, kChannels, width, count);
    else
      transpose_tile(floats + at, plane, to, kChannels, width, count);
    return;
  }
  const int64_t at = (row * shape.width + column) * shape.channels + channel;
  if (shape.is_half) return widen_rows(halves + at, shape.channels, to, kChannels, count, width);
  const float* from = floats + at;
  if (width < kChannels) {
    for (int64_t p = 0; p < count; ++p, from += shape.channels, to += kChannels) copy_row(from, to, width);
    return;
  }
  for (int64_t p = 0; p < count; ++p, from += shape.channels, to += kChannels)
    std::memcpy(to, from, static_cast<size_t>(kChannels) * sizeof(float));
}

class DepthwiseWeightGradient : public PreparedKernel {
 public:
  DepthwiseWeightGradient(const ConvGeometry& g, bool x_last, bool dy_last, bool is_half)
      : g_(g),
        x_{g.in_channels, g.in_height, g.in_width, x_last, is_half},
        dy_{g.out_channels, g.out_height, g.out_width, dy_last, is_half},
        groups_(divide_up(g.out_channels, kChannels)),
        multiplier_(g.out_group()) {
    active_isa();  // the level in force, for loops that Highway compiled
    chunk_columns_ = std::clamp<int64_t>(g.out_width, 1, kChunkPixels);
    chunk_rows_ = std::clamp<int64_t>(kChunkPixels / chunk_columns_, 1, std::max<int64_t>(1, g.out_height));
    const double cost =
        g.flops() / kFlopsPerMicrosecond +
        static_cast<double>(g.batch * (x_.elements() + dy_.elements())) / kElementsPerMicrosecond;
    // Lanes that share channels copy the same pixels.
    const int64_t parts = groups_ < kFewGroups ? std::min(kFewGroups, groups_ * g.kernel_height) : groups_;
    lanes_ = lanes_for_cost(cost, parts);
    const int64_t in_rows =
        std::min(g.in_height, (chunk_rows_ - 1) * g.stride_y + (g.kernel_height - 1) * g.dilation_y + 1);
    x_floats_ = in_rows * in_columns(chunk_columns_) * kChannels;
    dy_floats_ = chunk_rows_ * chunk_columns_ * kChannels;
    sum_floats_ = g.taps() * kChannels;
  }

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override {
    return (x_floats_ + dy_floats_ + sum_floats_) * static_cast<int64_t>(sizeof(float));
  }

  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    const int64_t units = groups_ * g_.kernel_height;  // rows of the kernel of kChannels channels
    const int64_t last = units * (lane + 1) / lanes_;
    for (int64_t unit = units * lane / lanes_; unit < last;) {
      const int64_t first_row = unit % g_.kernel_height;
      const int64_t end_row = std::min(g_.kernel_height, first_row + last - unit);
      if (!run_group(call, unit / g_.kernel_height, first_row, end_row, meter)) return;
      unit += end_row - first_row;
    }
  }

 private:
  struct Chunk {
    const void *x, *dy;  // the image
    int64_t row, rows, column, columns;
  };

  int64_t in_columns(int64_t columns) const {
    return (columns - 1) * g_.stride_x + (g_.kernel_width - 1) * g_.dilation_x + 1;
  }

  // Rows [first_row, end_row) of the kernel of one group of channels. False: the lane is to return.
  bool run_group(const KernelCall& call, int64_t group, int64_t first_row, int64_t end_row,
                 StopMeter& meter) const {
    float* const x = reinterpret_cast<float*>(call.scratch);
    float* const dy = x + x_floats_;
    float* const sums = dy + dy_floats_;
    std::memset(sums, 0, static_cast<size_t>(sum_floats_) * sizeof(float));
    const int64_t channel = group * kChannels, width = std::min(kChannels, g_.out_channels - channel);
    for (int64_t image = 0; image < g_.batch; ++image)
      for (int64_t row = 0; row < g_.out_height; row += chunk_rows_)
        for (int64_t column = 0; column < g_.out_width; column += chunk_columns_) {
          const Chunk chunk{x_.image(call.operands[0], image),
                            dy_.image(call.operands[1], image),
                            row,
                            std::min(chunk_rows_, g_.out_height - row),
                            column,
                            std::min(chunk_columns_, g_.out_width - column)};
          for (int64_t r = 0; r < chunk.rows; ++r)
            load_pixels(dy_, chunk.dy, row + r, column, chunk.columns, channel, width,
                        dy + r * chunk.columns * kChannels);
          const int64_t in_first = load_x(chunk, channel, width, first_row, end_row, x);
          for (int64_t ky = first_row; ky < end_row; ++ky)
            add_kernel_row(chunk, ky, in_first, x, dy, sums + ky * g_.kernel_width * kChannels);
          // The 16 multiply-adds of a tap and a pixel take about the time of an element; the copies count as
          // one more row.
          if (meter.stops(chunk.rows * chunk.columns * (end_row - first_row + 1) * g_.kernel_width))
            return false;
        }
    const int64_t first = first_row * g_.kernel_width, end = end_row * g_.kernel_width;
    if (x_.is_half)
      store(sums, channel, width, first, end, reinterpret_cast<Half*>(call.results[0]));
    else
      store(sums, channel, width, first, end, reinterpret_cast<float*>(call.results[0]));
    return true;
  }

  // The input rows that rows [first_row, end_row) of the kernel meet, padded to the left and right; which is the first.
  int64_t load_x(const Chunk& chunk, int64_t channel, int64_t width, int64_t first_row, int64_t end_row,
                 float* to) const {
    const int64_t low = std::clamp<int64_t>(
        chunk.row * g_.stride_y + first_row * g_.dilation_y - g_.padding_top, 0, g_.in_height);
    const int64_t high = std::clamp<int64_t>(
        (chunk.row + chunk.rows - 1) * g_.stride_y + (end_row - 1) * g_.dilation_y - g_.padding_top + 1, low,
        g_.in_height);
    const int64_t columns = in_columns(chunk.columns), start = chunk.column * g_.stride_x - g_.padding_left;
    const int64_t from = std::clamp<int64_t>(-start, 0, columns);
    const int64_t until = std::clamp<int64_t>(g_.in_width - start, from, columns);
    for (int64_t row = low; row < high; ++row, to += columns * kChannels) {
      std::fill(to, to + from * kChannels, 0.0f);
      if (until > from)
        load_input(chunk.x, row, start + from, until - from, channel, width, to + from * kChannels);
      std::fill(to + until * kChannels, to + columns * kChannels, 0.0f);
    }
    return low;
  }

  // What `width` output channels from `channel` on meet: their input channels, each as often as they read it.
  void load_input(const void* image, int64_t row, int64_t column, int64_t count, int64_t channel,
                  int64_t width, float* to) const {
    const int64_t first = channel / multiplier_, last = (channel + width - 1) / multiplier_;
    load_pixels(x_, image, row, column, count, first, last - first + 1, to);
    if (multiplier_ == 1) return;
    for (int64_t p = 0; p < count; ++p, to += kChannels)
      for (int64_t c = width; c-- > 0;) to[c] = to[(channel + c) / multiplier_ - first];
  }

  void add_kernel_row(const Chunk& chunk, int64_t ky, int64_t in_first, const float* x, const float* dy,
                      float* sums) const {
    const float *x_rows[kChunkPixels], *dy_rows[kChunkPixels];
    DepthwiseTaps taps;
    taps.pixels = chunk.columns;
    taps.taps = g_.kernel_width;
    taps.pixel_step = g_.stride_x * kChannels;
    taps.tap_step = g_.dilation_x * kChannels;
    taps.x = x_rows;
    taps.dy = dy_rows;
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t row = (chunk.row + r) * g_.stride_y + ky * g_.dilation_y - g_.padding_top;
      if (row < 0 || row >= g_.in_height) continue;
      x_rows[taps.rows] = x + (row - in_first) * in_columns(chunk.columns) * kChannels;
      dy_rows[taps.rows++] = dy + r * chunk.columns * kChannels;
    }
    if (taps.rows > 0) add_tap_products(taps, sums);
  }

  static void put(const float* from, float* to, int64_t count) { copy_row(from, to, count); }
  static void put(const float* from, Half* to, int64_t count) {
    narrow_rows(from, count, to, count, 1, count);
  }

  // Sums are [tap][kChannels], the result is [channel][tap].
  template <class T>
  void store(const float* sums, int64_t channel, int64_t width, int64_t first, int64_t end, T* dw) const {
    constexpr int64_t kAtATime = 64;
    float taps[kAtATime];
    for (int64_t c = 0; c < width; ++c)
      for (int64_t tap = first; tap < end; tap += kAtATime) {
        const int64_t count = std::min(kAtATime, end - tap);
        for (int64_t i = 0; i < count; ++i) taps[i] = sums[(tap + i) * kChannels + c];
        put(taps, dw + (channel + c) * g_.taps() + tap, count);
      }
  }

  ConvGeometry g_;
  ImageShape x_, dy_;
  int64_t groups_;      // of kChannels output channels
  int64_t multiplier_;  // output channels for each input channel
  int64_t chunk_rows_ = 1, chunk_columns_ = 1;
  int lanes_ = 1;
  int64_t x_floats_ = 0, dy_floats_ = 0, sum_floats_ = 0;
};

}  // namespace

std::unique_ptr<PreparedKernel> make_depthwise_weight_gradient(const ConvGeometry& geometry, bool x_last,
                                                               bool dy_last, bool is_half) {
  return std::make_unique<DepthwiseWeightGradient>(geometry, x_last, dy_last, is_half);
}

}  // namespace ipu::kernels
