// Blocks of pixels of x [N, C, ...], f32 or f16, plain or channels last, as rows of channels in f32: what sums over the
// channels of a batch walk. The blocks are the same for every layout.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kernel_table.h"

namespace ipu::kernels {

struct ChannelRows {
  const float* rows;
  int64_t pitch;  // from pixel to pixel
};

struct ChannelBlocks {
  static constexpr int64_t kPixels = 64;    // of a block: changes bits
  static constexpr int64_t kChannels = 64;  // of a block in the first cache, at most
  static constexpr int64_t kFloats = kPixels * kChannels;

  int64_t images = 0, channels = 0, pixels = 0;  // pixels of an image
  bool is_last = false, is_half = false;

  // nullopt: no such tensor. Its shape must be bounded (require_sound).
  static std::optional<ChannelBlocks> of(const TensorSpec& x);
  // Whether this is a value per channel of x: [1, C, 1, ...] in f32.
  static bool is_statistic(const TensorSpec& value, const TensorSpec& x);

  int64_t count() const { return images * pixels; }
  // Pixels [pixel, pixel + count) of all images in a row. `block` takes them where x does not have them so.
  ChannelRows rows(const std::byte* x, int64_t pixel, int64_t count, int64_t channel, int64_t channels,
                   float* block) const;
  // Lanes, which cut channels, and the first channel of one.
  int lanes() const;
  int64_t first_channel(int lane, int lanes) const;
};

}  // namespace ipu::kernels
