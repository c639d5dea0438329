// See channel_loops.h. Targets without fused multiply-add run std::fma: the bits stay.
#include "kernels/reduction/channel_loops.h"

#include <cmath>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction/channel_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What the rows count beside those before them.
struct Shares {
  float one_of_count, count_of_all, between;  // 1 / n, n / (m + n), m * n / (m + n)
  explicit Shares(const MomentsRows& r) {
    const double n = static_cast<double>(r.count), m = static_cast<double>(r.before);
    one_of_count = static_cast<float>(1.0 / n);
    count_of_all = static_cast<float>(n / (m + n));
    between = static_cast<float>(m * n / (m + n));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values

using D = hn::ScalableTag<float>;

// V vectors of channels, the last of `rest` channels if masked.
template <int V, bool kMasked>
void channel_block(const MomentsRows& r, const Shares& shares, int64_t channel, float* mean, float* squares) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, static_cast<size_t>(r.channels - channel));
  auto load = [&](const float* from) { return kMasked ? hn::MaskedLoad(mask, d, from) : hn::LoadU(d, from); };
  const float* const first = r.rows + channel;
  hn::Vec<D> sum[V], square[V];
  for (int v = 0; v < V; ++v) sum[v] = square[v] = hn::Zero(d);
  const float* at = first;
  for (int64_t i = 0; i < r.count; ++i, at += r.pitch)
    for (int v = 0; v < V; ++v) sum[v] = hn::Add(sum[v], load(at + v * lanes));
  for (int v = 0; v < V; ++v) sum[v] = hn::Mul(sum[v], hn::Set(d, shares.one_of_count));
  at = first;
  for (int64_t i = 0; i < r.count; ++i, at += r.pitch)
    for (int v = 0; v < V; ++v) {
      const auto distance = hn::Sub(load(at + v * lanes), sum[v]);
      square[v] = hn::MulAdd(distance, distance, square[v]);
    }
  for (int v = 0; v < V; ++v) {
    float* const own_mean = mean + channel + v * lanes;
    float* const own_squares = squares + channel + v * lanes;
    const auto old = load(own_mean), distance = hn::Sub(sum[v], old);
    const auto moved = hn::MulAdd(distance, hn::Set(d, shares.count_of_all), old);
    const auto apart = hn::Mul(distance, hn::Set(d, shares.between));
    const auto total = hn::MulAdd(distance, apart, hn::Add(load(own_squares), square[v]));
    if (kMasked) {
      hn::BlendedStore(moved, mask, d, own_mean);
      hn::BlendedStore(total, mask, d, own_squares);
    } else {
      hn::StoreU(moved, d, own_mean);
      hn::StoreU(total, d, own_squares);
    }
  }
}

void Moments(const MomentsRows& r, float* mean, float* squares) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const Shares shares(r);
  int64_t channel = 0;
  for (; channel + 4 * lanes <= r.channels; channel += 4 * lanes)
    channel_block<4, false>(r, shares, channel, mean, squares);
  for (; channel + lanes <= r.channels; channel += lanes)
    channel_block<1, false>(r, shares, channel, mean, squares);
  if (channel < r.channels) channel_block<1, true>(r, shares, channel, mean, squares);
}

template <int V, bool kMasked>
void gradient_block(const MomentsRows& r, const float* dy, int64_t dy_pitch, int64_t channel,
                    const float* mean, float* sum, float* product) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, static_cast<size_t>(r.channels - channel));
  auto load = [&](const float* from) { return kMasked ? hn::MaskedLoad(mask, d, from) : hn::LoadU(d, from); };
  hn::Vec<D> middle[V], sums[V], products[V];
  for (int v = 0; v < V; ++v) {
    middle[v] = load(mean + channel + v * lanes);
    sums[v] = products[v] = hn::Zero(d);
  }
  const float *x_at = r.rows + channel, *dy_at = dy + channel;
  for (int64_t i = 0; i < r.count; ++i, x_at += r.pitch, dy_at += dy_pitch)
    for (int v = 0; v < V; ++v) {
      const auto slope = load(dy_at + v * lanes);
      sums[v] = hn::Add(sums[v], slope);
      products[v] = hn::MulAdd(slope, hn::Sub(load(x_at + v * lanes), middle[v]), products[v]);
    }
  for (int v = 0; v < V; ++v) {
    float *const own_sum = sum + channel + v * lanes, *const own_product = product + channel + v * lanes;
    const auto total = hn::Add(load(own_sum), sums[v]),
               products_total = hn::Add(load(own_product), products[v]);
    if (kMasked) {
      hn::BlendedStore(total, mask, d, own_sum);
      hn::BlendedStore(products_total, mask, d, own_product);
    } else {
      hn::StoreU(total, d, own_sum);
      hn::StoreU(products_total, d, own_product);
    }
  }
}

void Gradients(const MomentsRows& r, const float* dy, int64_t dy_pitch, const float* mean, float* sum,
               float* product) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t channel = 0;
  for (; channel + 4 * lanes <= r.channels; channel += 4 * lanes)
    gradient_block<4, false>(r, dy, dy_pitch, channel, mean, sum, product);
  for (; channel + lanes <= r.channels; channel += lanes)
    gradient_block<1, false>(r, dy, dy_pitch, channel, mean, sum, product);
  if (channel < r.channels) gradient_block<1, true>(r, dy, dy_pitch, channel, mean, sum, product);
}

#else

void Gradients(const MomentsRows& r, const float* dy, int64_t dy_pitch, const float* mean, float* sum,
               float* product) {
  for (int64_t c = 0; c < r.channels; ++c) {
    float sums = 0.0f, products = 0.0f;
    for (int64_t i = 0; i < r.count; ++i) {
      const float slope = dy[i * dy_pitch + c];
      sums += slope;
      products = std::fma(slope, r.rows[i * r.pitch + c] - mean[c], products);
    }
    sum[c] += sums;
    product[c] += products;
  }
}

void Moments(const MomentsRows& r, float* mean, float* squares) {
  const Shares shares(r);
  for (int64_t c = 0; c < r.channels; ++c) {
    float sum = 0.0f, square = 0.0f;
    for (int64_t i = 0; i < r.count; ++i) sum += r.rows[i * r.pitch + c];
    sum *= shares.one_of_count;
    for (int64_t i = 0; i < r.count; ++i) {
      const float distance = r.rows[i * r.pitch + c] - sum;
      square = std::fma(distance, distance, square);
    }
    const float distance = sum - mean[c], apart = distance * shares.between;
    mean[c] = std::fma(distance, shares.count_of_all, mean[c]);
    squares[c] = std::fma(distance, apart, squares[c] + square);
  }
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(Moments);
HWY_EXPORT(Gradients);
void add_moments(const MomentsRows& rows, float* mean, float* squares) {
  HWY_DYNAMIC_DISPATCH(Moments)(rows, mean, squares);
}
void add_gradients(const MomentsRows& x, const float* dy, int64_t dy_pitch, const float* mean, float* sum,
                   float* product) {
  HWY_DYNAMIC_DISPATCH(Gradients)(x, dy, dy_pitch, mean, sum, product);
}
}  // namespace ipu::kernels
#endif
