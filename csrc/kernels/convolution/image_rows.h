// Rows of images on their way between the layouts of operands and the channels-last rows the loops work on.
#pragma once

#include <cstdint>

namespace ipu::kernels {

struct ImageShape {
  int64_t channels = 0, height = 0, width = 0;
  bool channels_last = false;  // as stored
  int64_t elements() const { return channels * height * width; }
};

// Copies rows [first, last) of an image to `to` as [row][pad_left + width + pad_right][channels] with zero
// padding.
void load_rows(const ImageShape& shape, const float* image, int64_t first, int64_t last, int64_t pad_left,
               int64_t pad_right, float* to);

// Copies channels [channel, channel + count) of channels-last rows [first, last), pixels `pitch` apart, into
// a plain (channels first) image. `from` points at row `first`, channel 0.
void store_rows_plain(const ImageShape& shape, const float* from, int64_t pitch, int64_t first, int64_t last,
                      int64_t channel, int64_t count, float* image);

}  // namespace ipu::kernels
