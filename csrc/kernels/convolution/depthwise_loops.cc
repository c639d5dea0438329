// See depthwise_loops.h. Targets without fused multiply-add run std::fma: the bits stay.
#include "kernels/convolution/depthwise_loops.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution/depthwise_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values

template <int P, bool kMasked>
void pixels(const DepthwiseRow& row, int64_t first, int64_t channel, float* out) {
  const hn::ScalableTag<float> d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(row.channels - channel));
  hn::Vec<decltype(d)> acc[P];
  for (int p = 0; p < P; ++p) acc[p] = hn::Zero(d);
  for (int64_t t = 0; t < row.count; ++t) {
    const float* w = row.weights[t] + channel;
    const float* x = row.taps[t] + first * row.pixel_step + channel;
    const auto weight = kMasked ? hn::MaskedLoad(mask, d, w) : hn::LoadU(d, w);
    for (int p = 0; p < P; ++p, x += row.pixel_step)
      acc[p] = hn::MulAdd(kMasked ? hn::MaskedLoad(mask, d, x) : hn::LoadU(d, x), weight, acc[p]);
  }
  for (int p = 0; p < P; ++p) {
    float* at = out + (first + p) * row.out_step + channel;
    if (kMasked)
      hn::BlendedStore(acc[p], mask, d, at);
    else
      hn::StoreU(acc[p], d, at);
  }
}

template <bool kMasked>
void channel_block(const DepthwiseRow& row, int64_t channel, float* out) {
  int64_t p = 0;
  for (; p + 8 <= row.pixels; p += 8) pixels<8, kMasked>(row, p, channel, out);
  for (; p + 2 <= row.pixels; p += 2) pixels<2, kMasked>(row, p, channel, out);
  for (; p < row.pixels; ++p) pixels<1, kMasked>(row, p, channel, out);
}

void Row(const DepthwiseRow& row, float* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t channel = 0;
  for (; channel + lanes <= row.channels; channel += lanes) channel_block<false>(row, channel, out);
  if (channel < row.channels) channel_block<true>(row, channel, out);
}

#else

void Row(const DepthwiseRow& row, float* out) {
  for (int64_t p = 0; p < row.pixels; ++p)
    for (int64_t c = 0; c < row.channels; ++c) {
      float sum = 0.0f;
      for (int64_t t = 0; t < row.count; ++t)
        sum = std::fma(row.taps[t][p * row.pixel_step + c], row.weights[t][c], sum);
      out[p * row.out_step + c] = sum;
    }
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(Row);
void depthwise_row(const DepthwiseRow& row, float* out) { HWY_DYNAMIC_DISPATCH(Row)(row, out); }
}  // namespace ipu::kernels
#endif
