// Rows of images on their way between the layouts and element types of operands and the channels-last f32
// rows the loops work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/stop_meter.h"
#include "kernels/tile_gemm/half_rows.h"

namespace ipu::kernels {

struct ImageShape {
  int64_t channels = 0, height = 0, width = 0;
  bool channels_last = false;  // as stored
  bool is_half = false;        // stored as f16
  int64_t elements() const { return channels * height * width; }
  // Rows of the operand serve the loops where they are.
  bool is_direct() const { return channels_last && !is_half; }
  const void* image(const void* images, int64_t index) const {
    return static_cast<const std::byte*>(images) + index * elements() * (is_half ? 2 : 4);
  }
  void* image(void* images, int64_t index) const {
    return static_cast<std::byte*>(images) + index * elements() * (is_half ? 2 : 4);
  }
};

inline void copy_row(const float* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}
inline void copy_row(const Half* from, float* to, int64_t count) {  // widened
  widen_rows(from, count, to, count, 1, count);
}

// Copies rows [first, last) of an image to `to` as [row][pad_left + width + pad_right][channels] with zero
// padding.
void load_rows(const ImageShape& shape, const void* image, int64_t first, int64_t last, int64_t pad_left,
               int64_t pad_right, float* to);

// The same in steps of some 100 us. False: the lane is to return.
bool load_rows(const ImageShape& shape, const void* image, int64_t first, int64_t last, int64_t pad_left,
               int64_t pad_right, float* to, StopMeter& meter);

// Copies channels [channel, channel + count) of channels-last rows [first, last), pixels `pitch` apart, into
// an image of any form. `from` points at row `first`, channel 0.
void store_rows(const ImageShape& shape, const float* from, int64_t pitch, int64_t first, int64_t last,
                int64_t channel, int64_t count, void* image);
bool store_rows(const ImageShape& shape, const float* from, int64_t pitch, int64_t first, int64_t last,
                int64_t channel, int64_t count, void* image, StopMeter& meter);

}  // namespace ipu::kernels
