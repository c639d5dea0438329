// See pool_loops.h. Only comparisons, sums and divisions: equal bits on every instruction set.
#include "kernels/pooling/pool_loops.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pooling/pool_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef IPU_VECTOR_POOLS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values; the others run scalar loops
#define IPU_VECTOR_POOLS 1
#else
#define IPU_VECTOR_POOLS 0
#endif

[[maybe_unused]] void max_of_channel(const float* const* taps, int64_t count, int64_t c, float* out) {
  float best = -std::numeric_limits<float>::infinity();
  for (int64_t t = 0; t < count; ++t)
    if (taps[t][c] > best || std::isnan(taps[t][c])) best = taps[t][c];
  out[c] = best;
}

[[maybe_unused]] void scatter_channel(const float* const* taps, float* const* gradients, int64_t count,
                                      const float* y, const float* dy, int64_t c) {
  int64_t at = -1;
  for (int64_t t = 0; t < count; ++t) {
    if (std::isnan(y[c]) ? !std::isnan(taps[t][c]) : taps[t][c] != y[c]) continue;
    at = t;
    if (!std::isnan(y[c])) break;
  }
  if (at >= 0 && gradients[at] != nullptr) gradients[at][c] += dy[c];
}

#if IPU_VECTOR_POOLS

// Calls body(offset, load, store) for whole vectors and once, masked, for the rest.
template <typename Body>
HWY_INLINE void for_each_vector(int64_t channels, Body body) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes)
    body(
        c, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
        [&](auto value, float* to) HWY_ATTR { hn::StoreU(value, d, to); });
  if (c == channels) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(channels - c));
  body(
      c, [&](const float* from) HWY_ATTR { return hn::MaskedLoad(mask, d, from); },
      [&](auto value, float* to) HWY_ATTR { hn::BlendedStore(value, mask, d, to); });
}

void Max(const float* const* taps, int64_t count, int64_t channels, float* out) {
  const hn::ScalableTag<float> d;
  for_each_vector(channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
    auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t t = 0; t < count; ++t) {
      const auto x = load(taps[t] + c);
      best = hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
    }
    store(best, out + c);
  });
}

void Mean(const float* const* taps, int64_t count, float divisor, int64_t channels, float* out) {
  const hn::ScalableTag<float> d;
  for_each_vector(channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t) sum = hn::Add(sum, load(taps[t] + c));
    store(hn::Div(sum, hn::Set(d, divisor)), out + c);
  });
}

void Scatter(const float* const* taps, float* const* gradients, int64_t count, const float* y,
             const float* dy, int64_t channels) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_vector(channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
    const auto maximum = load(y + c);
    if (!hn::AllFalse(d, hn::IsNaN(maximum))) {
      for (int64_t i = c; i < channels && i < c + lanes; ++i)
        scatter_channel(taps, gradients, count, y, dy, i);
      return;
    }
    const auto rest = load(dy + c);
    auto open = hn::Eq(maximum, maximum);
    for (int64_t t = 0; t < count; ++t) {
      const auto hit = hn::And(open, hn::Eq(load(taps[t] + c), maximum));
      open = hn::AndNot(hit, open);
      if (gradients[t] == nullptr) continue;
      float* const at = gradients[t] + c;
      const auto old = load(at);
      store(hn::IfThenElse(hit, hn::Add(old, rest), old), at);
    }
  });
}

void Spread(float* const* gradients, int64_t count, const float* dy, float divisor, int64_t channels) {
  const hn::ScalableTag<float> d;
  for_each_vector(channels, [&](int64_t c, auto load, auto store) HWY_ATTR {
    const auto part = hn::Div(load(dy + c), hn::Set(d, divisor));
    for (int64_t t = 0; t < count; ++t)
      if (gradients[t] != nullptr) store(hn::Add(load(gradients[t] + c), part), gradients[t] + c);
  });
}

#else

void Max(const float* const* taps, int64_t count, int64_t channels, float* out) {
  for (int64_t c = 0; c < channels; ++c) max_of_channel(taps, count, c, out);
}

void Mean(const float* const* taps, int64_t count, float divisor, int64_t channels, float* out) {
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0.0f;
    for (int64_t t = 0; t < count; ++t) sum += taps[t][c];
    out[c] = sum / divisor;
  }
}

void Scatter(const float* const* taps, float* const* gradients, int64_t count, const float* y,
             const float* dy, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) scatter_channel(taps, gradients, count, y, dy, c);
}

void Spread(float* const* gradients, int64_t count, const float* dy, float divisor, int64_t channels) {
  for (int64_t t = 0; t < count; ++t)
    if (gradients[t] != nullptr)
      for (int64_t c = 0; c < channels; ++c) gradients[t][c] += dy[c] / divisor;
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {

HWY_EXPORT(Max);
HWY_EXPORT(Mean);
HWY_EXPORT(Scatter);
HWY_EXPORT(Spread);

void max_of_taps(const float* const* taps, int64_t count, int64_t channels, float* out) {
  HWY_DYNAMIC_DISPATCH(Max)(taps, count, channels, out);
}
void mean_of_taps(const float* const* taps, int64_t count, float divisor, int64_t channels, float* out) {
  HWY_DYNAMIC_DISPATCH(Mean)(taps, count, divisor, channels, out);
}
void scatter_to_maximum(const float* const* taps, float* const* gradients, int64_t count, const float* y,
                        const float* dy, int64_t channels) {
  HWY_DYNAMIC_DISPATCH(Scatter)(taps, gradients, count, y, dy, channels);
}
void spread_to_taps(float* const* gradients, int64_t count, const float* dy, float divisor,
                    int64_t channels) {
  HWY_DYNAMIC_DISPATCH(Spread)(gradients, count, dy, divisor, channels);
}

}  // namespace ipu::kernels
#endif
