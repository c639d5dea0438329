// See image_rows.h.
#include "kernels/convolution/image_rows.h"

#include <cstring>

#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {

void load_rows(const ImageShape& shape, const float* image, int64_t first, int64_t last, int64_t pad_left,
               int64_t pad_right, float* to) {
  const int64_t channels = shape.channels, width = shape.width;
  auto bytes = [&](int64_t pixels) { return static_cast<size_t>(pixels * channels) * sizeof(float); };
  for (int64_t row = first; row < last; ++row) {
    std::memset(to, 0, bytes(pad_left));
    to += pad_left * channels;
    if (shape.channels_last)
      std::memcpy(to, image + row * width * channels, bytes(width));
    else
      transpose_tile(image + row * width, shape.height * width, to, channels, channels, width);
    to += width * channels;
    std::memset(to, 0, bytes(pad_right));
    to += pad_right * channels;
  }
}

void store_rows_plain(const ImageShape& shape, const float* from, int64_t pitch, int64_t first, int64_t last,
                      int64_t channel, int64_t count, float* image) {
  const int64_t plane = shape.height * shape.width;
  transpose_tile(from + channel, pitch, image + channel * plane + first * shape.width, plane,
                 (last - first) * shape.width, count);
}

}  // namespace ipu::kernels
