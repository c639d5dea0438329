// Sums over the channels of x [N, C, ...], f32 or f16, plain or channels last; results are f32 of [1, C, 1, ...].
// "channel_moments": mean and biased variance. "channel_gradient_sums" of dy, x, mean and rstd: the sums of dy and of
// dy * (x - mean) * rstd. One way through memory: blocks of pixels (channel_blocks.h) are taken in while they are
// hot, in the order of the pixels. Lanes cut channels, never a sum.
#include <algorithm>
#include <cmath>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/reduction/channel_blocks.h"
#include "kernels/reduction/channel_loops.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

bool can_find_moments(const KernelRequest& request) {
  if (request.operands.size() != 1 || request.results.size() != 2) return false;
  const TensorSpec& x = request.operands[0];
  return ChannelBlocks::of(x) && ChannelBlocks::is_statistic(request.results[0], x) &&
         ChannelBlocks::is_statistic(request.results[1], x);
}

class ChannelMoments final : public PreparedKernel {
 public:
  explicit ChannelMoments(const ChannelBlocks& blocks) : blocks_(blocks), lanes_(blocks.lanes()) {}
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return ChannelBlocks::kFloats * 4; }

  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    auto* const block = reinterpret_cast<float*>(call.scratch);
    auto* const mean = reinterpret_cast<float*>(call.results[0]);
    auto* const variance = reinterpret_cast<float*>(call.results[1]);
    const int64_t first = blocks_.first_channel(lane, lanes_), last = blocks_.first_channel(lane + 1, lanes_);
    const int64_t pixels = blocks_.count();
    std::fill(mean + first, mean + last, pixels > 0 ? 0.0f : std::nanf(""));
    std::fill(variance + first, variance + last, pixels > 0 ? 0.0f : std::nanf(""));
    for (int64_t channel = first; channel < last; channel += ChannelBlocks::kChannels) {
      const int64_t channels = std::min(ChannelBlocks::kChannels, last - channel);
      for (int64_t pixel = 0; pixel < pixels; pixel += ChannelBlocks::kPixels) {
        const int64_t count = std::min(ChannelBlocks::kPixels, pixels - pixel);
        const ChannelRows x = blocks_.rows(call.operands[0], pixel, count, channel, channels, block);
        add_moments({x.rows, x.pitch, count, channels, pixel}, mean + channel, variance + channel);
        if (meter.stops(count * channels)) return;
      }
    }
    if (pixels == 0) return;
    for (int64_t c = first; c < last; ++c) variance[c] /= static_cast<float>(pixels);
  }

 private:
  ChannelBlocks blocks_;
  int lanes_;
};

std::unique_ptr<PreparedKernel> prepare_channel_moments(const KernelRequest& request) {
  if (!can_find_moments(request)) return nullptr;
  return std::make_unique<ChannelMoments>(*ChannelBlocks::of(request.operands[0]));
}

Footprint footprint_of_channel_moments(const KernelRequest& request) {
  require_counts(request, 1, 2);
  require_sound(request);
  require(can_find_moments(request), "has no moments of channels");
  return footprint_of_views(request);
}

bool can_sum_gradients(const KernelRequest& request) {
  if (request.operands.size() != 4 || request.results.size() != 2) return false;
  const TensorSpec &dy = request.operands[0], &x = request.operands[1];
  for (const TensorSpec* statistic :
       {&request.operands[2], &request.operands[3], &request.results[0], &request.results[1]})
    if (!ChannelBlocks::is_statistic(*statistic, x)) return false;
  return ChannelBlocks::of(x) && ChannelBlocks::of(dy) && x.shape == dy.shape;
}

class ChannelGradientSums final : public PreparedKernel {
 public:
  ChannelGradientSums(const ChannelBlocks& dy, const ChannelBlocks& x) : dy_(dy), x_(x), lanes_(x.lanes()) {}
  int lanes() const override { return lanes_; }
  // A block of each operand, and two sums over several blocks.
  int64_t scratch_bytes() const override {
    return (2 * ChannelBlocks::kFloats + 2 * ChannelBlocks::kChannels) * 4;
  }

  void run(const KernelCall& call, int lane) const override {
    constexpr int64_t kBlocks = 32;  // added up before they join the sum: changes bits
    StopMeter meter(call);
    auto* const dy_block = reinterpret_cast<float*>(call.scratch);
    float* const x_block = dy_block + ChannelBlocks::kFloats;
    float* const part = x_block + ChannelBlocks::kFloats;
    float* const product_part = part + ChannelBlocks::kChannels;
    const auto* const mean = reinterpret_cast<const float*>(call.operands[2]);
    const auto* const rstd = reinterpret_cast<const float*>(call.operands[3]);
    auto* const sum = reinterpret_cast<float*>(call.results[0]);
    auto* const product = reinterpret_cast<float*>(call.results[1]);
    const int64_t first = x_.first_channel(lane, lanes_), last = x_.first_channel(lane + 1, lanes_);
    std::fill(sum + first, sum + last, 0.0f);
    std::fill(product + first, product + last, 0.0f);
    for (int64_t channel = first; channel < last; channel += ChannelBlocks::kChannels) {
      const int64_t channels = std::min(ChannelBlocks::kChannels, last - channel);
      for (int64_t pixel = 0; pixel < x_.count();) {
        std::fill(part, product_part + channels, 0.0f);
        for (int64_t i = 0; i < kBlocks && pixel < x_.count(); ++i, pixel += ChannelBlocks::kPixels) {
          const int64_t count = std::min(ChannelBlocks::kPixels, x_.count() - pixel);
          const ChannelRows dy = dy_.rows(call.operands[0], pixel, count, channel, channels, dy_block);
          const ChannelRows x = x_.rows(call.operands[1], pixel, count, channel, channels, x_block);
          add_gradients({x.rows, x.pitch, count, channels, pixel}, dy.rows, dy.pitch, mean + channel, part,
                        product_part);
          if (meter.stops(2 * count * channels)) return;
        }
        for (int64_t c = 0; c < channels; ++c) {
          sum[channel + c] += part[c];
          product[channel + c] += product_part[c] * rstd[channel + c];
        }
      }
    }
  }

 private:
  ChannelBlocks dy_, x_;
  int lanes_;
};

std::unique_ptr<PreparedKernel> prepare_channel_gradient_sums(const KernelRequest& request) {
  if (!can_sum_gradients(request)) return nullptr;
  return std::make_unique<ChannelGradientSums>(*ChannelBlocks::of(request.operands[0]),
                                               *ChannelBlocks::of(request.operands[1]));
}

Footprint footprint_of_channel_gradient_sums(const KernelRequest& request) {
  require_counts(request, 4, 2);
  require_sound(request);
  require(can_sum_gradients(request), "has no sums of channels");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("channel_moments", prepare_channel_moments, footprint_of_channel_moments);
IPU_REGISTER_KERNEL("channel_gradient_sums", prepare_channel_gradient_sums,
                    footprint_of_channel_gradient_sums);

}  // namespace
}  // namespace ipu::kernels
