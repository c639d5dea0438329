// See image_rows.h.
#include "kernels/convolution/image_rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kStepFloats = 1 << 18;

int64_t rows_of_step(int64_t row_floats) {
  return std::max<int64_t>(1, kStepFloats / std::max<int64_t>(1, row_floats));
}

}  // namespace

void load_rows(const ImageShape& shape, const void* image, int64_t first, int64_t last, int64_t pad_left,
               int64_t pad_right, float* to) {
  const int64_t channels = shape.channels, width = shape.width, plane = shape.height * width;
  const auto* floats = static_cast<const float*>(image);
  const auto* halves = static_cast<const Half*>(image);
  auto bytes = [&](int64_t pixels) { return static_cast<size_t>(pixels * channels) * sizeof(float); };
  if (shape.is_half && pad_left == 0 && pad_right == 0) {  // all rows at once
    const int64_t start = first * width, pixels = (last - first) * width;
    if (shape.channels_last)
      widen_rows(halves + start * channels, pixels * channels, to, pixels * channels, 1, pixels * channels);
    else
      widen_transposed(halves + start, plane, to, channels, channels, pixels);
    return;
  }
  for (int64_t row = first; row < last; ++row) {
    std::memset(to, 0, bytes(pad_left));
    to += pad_left * channels;
    if (shape.is_half) {
      if (shape.channels_last)
        widen_rows(halves + row * width * channels, width * channels, to, width * channels, 1,
                   width * channels);
      else
        widen_transposed(halves + row * width, plane, to, channels, channels, width);
    } else if (shape.channels_last) {
      std::memcpy(to, floats + row * width * channels, bytes(width));
    } else {
      transpose_tile(floats + row * width, plane, to, channels, channels, width);
    }
    to += width * channels;
    std::memset(to, 0, bytes(pad_right));
    to += pad_right * channels;
  }
}

bool load_rows(const ImageShape& shape, const void* image, int64_t first, int64_t last, int64_t pad_left,
               int64_t pad_right, float* to, StopMeter& meter) {
  const int64_t row_floats = (pad_left + shape.width + pad_right) * shape.channels;
  const int64_t step = rows_of_step(row_floats);
  for (int64_t row = first; row < last; row += step) {
    const int64_t end = std::min(last, row + step);
    load_rows(shape, image, row, end, pad_left, pad_right, to + (row - first) * row_floats);
    if (meter.stops((end - row) * row_floats / 4)) return false;
  }
  return true;
}

bool store_rows(const ImageShape& shape, const float* from, int64_t pitch, int64_t first, int64_t last,
                int64_t channel, int64_t count, void* image, StopMeter& meter) {
  const int64_t step = rows_of_step(shape.width * count);
  for (int64_t row = first; row < last; row += step) {
    const int64_t end = std::min(last, row + step);
    store_rows(shape, from + (row - first) * shape.width * pitch, pitch, row, end, channel, count, image);
    if (meter.stops((end - row) * shape.width * count / 4)) return false;
  }
  return true;
}

void store_rows(const ImageShape& shape, const float* from, int64_t pitch, int64_t first, int64_t last,
                int64_t channel, int64_t count, void* image) {
  const int64_t plane = shape.height * shape.width, start = first * shape.width;
  const int64_t pixels = (last - first) * shape.width;
  if (shape.channels_last) {
    const int64_t at = start * shape.channels + channel;
    if (shape.is_half)
      return narrow_rows(from + channel, pitch, static_cast<Half*>(image) + at, shape.channels, pixels,
                         count);
    for (int64_t p = 0; p < pixels; ++p)
      std::memcpy(static_cast<float*>(image) + at + p * shape.channels, from + p * pitch + channel,
                  static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const int64_t at = channel * plane + start;
  if (shape.is_half)
    narrow_transposed(from + channel, pitch, static_cast<Half*>(image) + at, plane, pixels, count);
  else
    transpose_tile(from + channel, pitch, static_cast<float*>(image) + at, plane, pixels, count);
}

}  // namespace ipu::kernels
