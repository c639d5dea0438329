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

// The definition, for one channel of the window that starts `at` floats after the first.
[[maybe_unused]] void scatter_channel(const WindowRow& row, int64_t at, float y, float dy, int64_t c,
                                      bool assigns) {
  int64_t chosen = -1;
  for (int64_t t = 0; t < row.count; ++t) {
    const float x = row.taps[t][at + c];
    if (std::isnan(y) ? !std::isnan(x) : x != y) continue;
    chosen = t;
    if (!std::isnan(y)) break;
  }
  for (int64_t t = 0; t < row.count; ++t) {
    if (row.gradients[t] == nullptr) continue;
    float& gradient = row.gradients[t][at + c];
    if (assigns) gradient = 0.0f;
    if (t == chosen) gradient += dy;
  }
}

#if IPU_VECTOR_POOLS

// Calls body(offset of the window's channels in the operands, in the results, load, store) for whole vectors
// of channels and once, masked, for the rest.
template <typename Body>
HWY_INLINE void for_each_vector(const WindowRow& row, Body body) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = row.channels / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(row.channels - whole));
  for (int64_t w = 0; w < row.windows; ++w) {
    const int64_t in = w * row.step, out = w * row.channels;
    for (int64_t c = 0; c < whole; c += lanes)
      body(
          in + c, out + c, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
          [&](auto value, float* to) HWY_ATTR { hn::StoreU(value, d, to); });
    if (whole < row.channels)
      body(
          in + whole, out + whole, [&](const float* from) HWY_ATTR { return hn::MaskedLoad(mask, d, from); },
          [&](auto value, float* to) HWY_ATTR { hn::BlendedStore(value, mask, d, to); });
  }
}

void Max(const WindowRow& row, float* y) {
  const hn::ScalableTag<float> d;
  for_each_vector(row, [&](int64_t in, int64_t out, auto load, auto store) HWY_ATTR {
    // x86: the maximum of (x, best) is best when x is NaN or both are zeros. NaNs are collected beside it.
    auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto ordered = hn::Eq(best, best);
    for (int64_t t = 0; t < row.count; ++t) {
      const auto x = load(row.taps[t] + in);
      ordered = hn::And(ordered, hn::Eq(x, x));
      best = hn::Max(x, best);
    }
    store(hn::IfThenElse(ordered, best, hn::Set(d, std::numeric_limits<float>::quiet_NaN())), y + out);
  });
}

void Mean(const WindowRow& row, float divisor, float* y) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, divisor);
  for_each_vector(row, [&](int64_t in, int64_t out, auto load, auto store) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < row.count; ++t) sum = hn::Add(sum, load(row.taps[t] + in));
    store(hn::Div(sum, by), y + out);
  });
}

void Scatter(const WindowRow& row, const float* y, const float* dy, bool assigns) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_vector(row, [&](int64_t in, int64_t out, auto load, auto store) HWY_ATTR {
    const auto maximum = load(y + out);
    if (!hn::AllTrue(d, hn::Eq(maximum, maximum))) {
      const int64_t window = out / row.channels, first = out % row.channels;
      for (int64_t c = first; c < row.channels && c < first + lanes; ++c)
        scatter_channel(row, window * row.step, y[window * row.channels + c], dy[window * row.channels + c],
                        c, assigns);
      return;
    }
    const auto upstream = load(dy + out);
    auto open = hn::Eq(maximum, maximum);  // has not met its tap yet
    for (int64_t t = 0; t < row.count; ++t) {
      const auto hit = hn::And(open, hn::Eq(load(row.taps[t] + in), maximum));
      open = hn::AndNot(hit, open);
      if (row.gradients[t] == nullptr) continue;
      float* const at = row.gradients[t] + in;
      if (assigns) {
        store(hn::IfThenElseZero(hit, upstream), at);
      } else {
        const auto old = load(at);
        store(hn::IfThenElse(hit, hn::Add(old, upstream), old), at);
      }
    }
  });
}

void Spread(const WindowRow& row, const float* dy, float divisor, bool assigns) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, divisor);
  for_each_vector(row, [&](int64_t in, int64_t out, auto load, auto store) HWY_ATTR {
    const auto share = hn::Div(load(dy + out), by);
    for (int64_t t = 0; t < row.count; ++t) {
      if (row.gradients[t] == nullptr) continue;
      float* const at = row.gradients[t] + in;
      store(assigns ? share : hn::Add(load(at), share), at);
    }
  });
}

#else

void Max(const WindowRow& row, float* y) {
  for (int64_t w = 0; w < row.windows; ++w)
    for (int64_t c = 0; c < row.channels; ++c) {
      float best = -std::numeric_limits<float>::infinity();
      bool ordered = true;
      for (int64_t t = 0; t < row.count; ++t) {
        const float x = row.taps[t][w * row.step + c];
        ordered = ordered && !std::isnan(x);
        if (x > best) best = x;
      }
      y[w * row.channels + c] = ordered ? best : std::numeric_limits<float>::quiet_NaN();
    }
}

void Mean(const WindowRow& row, float divisor, float* y) {
  for (int64_t w = 0; w < row.windows; ++w)
    for (int64_t c = 0; c < row.channels; ++c) {
      float sum = 0.0f;
      for (int64_t t = 0; t < row.count; ++t) sum += row.taps[t][w * row.step + c];
      y[w * row.channels + c] = sum / divisor;
    }
}

void Scatter(const WindowRow& row, const float* y, const float* dy, bool assigns) {
  for (int64_t w = 0; w < row.windows; ++w)
    for (int64_t c = 0; c < row.channels; ++c)
      scatter_channel(row, w * row.step, y[w * row.channels + c], dy[w * row.channels + c], c, assigns);
}

void Spread(const WindowRow& row, const float* dy, float divisor, bool assigns) {
  for (int64_t w = 0; w < row.windows; ++w)
    for (int64_t t = 0; t < row.count; ++t) {
      if (row.gradients[t] == nullptr) continue;
      for (int64_t c = 0; c < row.channels; ++c) {
        float& gradient = row.gradients[t][w * row.step + c];
        const float share = dy[w * row.channels + c] / divisor;
        gradient = assigns ? share : gradient + share;
      }
    }
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

void max_of_windows(const WindowRow& row, float* out) { HWY_DYNAMIC_DISPATCH(Max)(row, out); }
void mean_of_windows(const WindowRow& row, float divisor, float* out) {
  HWY_DYNAMIC_DISPATCH(Mean)(row, divisor, out);
}
void scatter_to_maxima(const WindowRow& row, const float* y, const float* dy, bool assigns) {
  HWY_DYNAMIC_DISPATCH(Scatter)(row, y, dy, assigns);
}
void spread_to_windows(const WindowRow& row, const float* dy, float divisor, bool assigns) {
  HWY_DYNAMIC_DISPATCH(Spread)(row, dy, divisor, assigns);
}

}  // namespace ipu::kernels
#endif
