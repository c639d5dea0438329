// See depthwise_gradient_loops.h. Targets without fused multiply-add run std::fma: the bits stay.
#include "kernels/convolution/depthwise_gradient_loops.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution/depthwise_gradient_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values

#undef IPU_UNROLL
#define IPU_UNROLL _Pragma("GCC unroll 16")

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kVectors = static_cast<int>(DepthwiseTaps::kChannels / kLanes);
constexpr int kMostTaps = kVectors == 1 ? 8 : 4;  // whose sums stay in registers

template <int K>
HWY_INLINE void add_taps(const DepthwiseTaps& t, int64_t first, float* sums) {
  const D d;
  V acc[K][kVectors];
  IPU_UNROLL for (int k = 0; k < K; ++k) IPU_UNROLL for (int v = 0; v < kVectors; ++v) acc[k][v] =
      hn::Zero(d);
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* dy = t.dy[row];
    const float* x = t.x[row] + first * t.tap_step;
    for (int64_t p = 0; p < t.pixels; ++p, dy += DepthwiseTaps::kChannels, x += t.pixel_step) {
      V slope[kVectors];
      IPU_UNROLL for (int v = 0; v < kVectors; ++v) slope[v] = hn::LoadU(d, dy + v * kLanes);
      IPU_UNROLL for (int k = 0; k < K; ++k) IPU_UNROLL for (int v = 0; v < kVectors; ++v) acc[k][v] =
          hn::MulAdd(hn::LoadU(d, x + k * t.tap_step + v * kLanes), slope[v], acc[k][v]);
    }
  }
  IPU_UNROLL for (int k = 0; k < K; ++k) IPU_UNROLL for (int v = 0; v < kVectors; ++v) {
    float* const to = sums + (first + k) * DepthwiseTaps::kChannels + v * kLanes;
    hn::StoreU(hn::Add(hn::LoadU(d, to), acc[k][v]), d, to);
  }
}

template <int K>
void add_last_taps(const DepthwiseTaps& t, int64_t first, float* sums) {
  if constexpr (K > 1)
    if (t.taps - first < K) return add_last_taps<K - 1>(t, first, sums);
  add_taps<K>(t, first, sums);
}

void Add(const DepthwiseTaps& t, float* sums) {
  for (int64_t first = 0; first < t.taps; first += kMostTaps) add_last_taps<kMostTaps>(t, first, sums);
}

#else

void Add(const DepthwiseTaps& t, float* sums) {
  for (int64_t k = 0; k < t.taps; ++k)
    for (int64_t c = 0; c < DepthwiseTaps::kChannels; ++c) {
      float sum = 0.0f;
      for (int64_t row = 0; row < t.rows; ++row)
        for (int64_t p = 0; p < t.pixels; ++p)
          sum = std::fma(t.x[row][p * t.pixel_step + k * t.tap_step + c],
                         t.dy[row][p * DepthwiseTaps::kChannels + c], sum);
      sums[k * DepthwiseTaps::kChannels + c] += sum;
    }
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(Add);
void add_tap_products(const DepthwiseTaps& taps, float* sums) { HWY_DYNAMIC_DISPATCH(Add)(taps, sums); }
}  // namespace ipu::kernels
#endif
