// See channel_blocks.h.
#include "kernels/reduction/channel_blocks.h"

#include <algorithm>

#include "kernels/lanes.h"
#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kFewestChannels = 32;  // of a lane: two lines of the cache

}  // namespace

std::optional<ChannelBlocks> ChannelBlocks::of(const TensorSpec& x) {
  if (x.shape.size() < 2 || (x.dtype != DType::kF32 && x.dtype != DType::kF16) || x.layout.is_blocked())
    return std::nullopt;
  if (x.layout.is_plain() && !x.is_contiguous()) return std::nullopt;
  ChannelBlocks blocks{x.shape[0], x.shape[1], 1, x.layout.is_channels_last(), x.dtype == DType::kF16};
  for (size_t d = 2; d < x.shape.size(); ++d) blocks.pixels *= x.shape[d];
  blocks.is_last = blocks.is_last || blocks.pixels == 1;
  return blocks;
}

bool ChannelBlocks::is_statistic(const TensorSpec& value, const TensorSpec& x) {
  if (x.shape.size() < 2) return false;
  Shape shape(x.shape.size(), 1);
  shape[1] = x.shape[1];
  return value.dtype == DType::kF32 && value.shape == shape && value.layout.is_plain() &&
         value.is_contiguous();
}

int ChannelBlocks::lanes() const {
  return static_cast<int>(
      std::clamp<int64_t>(channels / kFewestChannels, 1, lanes_for_elements(count() * channels)));
}

// Lanes start at whole lines of the cache.
int64_t ChannelBlocks::first_channel(int lane, int lanes) const {
  return lane == lanes ? channels : channels * lane / lanes / 16 * 16;
}

ChannelRows ChannelBlocks::rows(const std::byte* x, int64_t pixel, int64_t count, int64_t channel,
                                int64_t width, float* block) const {
  const auto* const floats = reinterpret_cast<const float*>(x);
  const auto* const halves = reinterpret_cast<const Half*>(x);
  if (is_last && !is_half) return {floats + pixel * channels + channel, channels};
  if (is_last) {
    widen_rows(halves + pixel * channels + channel, channels, block, width, count, width);
    return {block, width};
  }
  for (float* to = block; count > 0;) {
    const int64_t image = pixel / pixels, at = pixel % pixels, run = std::min(count, pixels - at);
    const int64_t start = (image * channels + channel) * pixels + at;
    if (is_half)
      widen_transposed(halves + start, pixels, to, width, width, run);
    else
      transpose_tile(floats + start, pixels, to, width, width, run);
    pixel += run;
    count -= run;
    to += run * width;
  }
  return {block, width};
}

}  // namespace ipu::kernels
