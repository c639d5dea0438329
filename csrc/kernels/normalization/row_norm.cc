// Highway bodies of row_norm.h.
#include "kernels/normalization/row_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalization/row_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/half_vector-inl.h"
#include "kernels/pointwise/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Chain = hn::CappedTag<float, 16>;
using Vector = hn::VFromD<Chain>;
constexpr size_t kLanes = hn::MaxLanes(Chain());
constexpr size_t kVectors = 16 / kLanes;
constexpr size_t kBlock = 4096;  // elements that are added in f32; their sums are added in f64

HWY_INLINE Vector load(const float* from, size_t n) { return load_up_to(Chain(), from, n); }
HWY_INLINE void store(Vector v, float* to, size_t n) { store_up_to(Chain(), v, to, n); }
#if IPU_VECTOR_HALVES
HWY_INLINE Vector load(const uint16_t* from, size_t n) {
  return n == kLanes ? load_halves(Chain(), from) : load_first_halves(Chain(), from, static_cast<int64_t>(n));
}
HWY_INLINE void store(Vector v, uint16_t* to, size_t n) {
  store_first_halves(Chain(), v, to, static_cast<int64_t>(n));
}
#else
// _Float16 is what the compiler calls the stored bits; its conversions round to nearest even.
HWY_INLINE Vector load(const uint16_t* from, size_t n) {
  HWY_ALIGN float values[kLanes] = {};
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(reinterpret_cast<const _Float16*>(from)[i]);
  return hn::Load(Chain(), values);
}
HWY_INLINE void store(Vector v, uint16_t* to, size_t n) {
  HWY_ALIGN float values[kLanes];
  hn::Store(v, Chain(), values);
  for (size_t i = 0; i < n; ++i) reinterpret_cast<_Float16*>(to)[i] = static_cast<_Float16>(values[i]);
}
#endif

// Element i belongs to chain i % kWidth. step(sum, i, n) gives `sum` with the elements [i, i + n) added, for
// each of kSums sums; the last vector of a block may be partial.
template <size_t kSums, size_t kWidth>
class Chains {
 public:
  template <class Step>
  HWY_INLINE void add(size_t count, Step step) {
    const Chain d;
    for (size_t first = 0; first < count; first += kBlock) {
      const size_t last = std::min(count, first + kBlock);
      Vector sum[kParts][kSums];
      for (size_t p = 0; p < kParts; ++p)
        for (size_t s = 0; s < kSums; ++s) sum[p][s] = hn::Zero(d);
      size_t i = first;
      for (; i + kWidth <= last; i += kWidth)
        for (size_t p = 0; p < kParts; ++p) step(sum[p], i + p * kLanes, kLanes);
      for (size_t p = 0; i < last; ++p, i += kLanes) {
        const size_t n = std::min(kLanes, last - i);
        Vector whole[kSums];
        for (size_t s = 0; s < kSums; ++s) whole[s] = sum[p][s];
        step(whole, i, n);
        for (size_t s = 0; s < kSums; ++s) sum[p][s] = hn::IfThenElse(hn::FirstN(d, n), whole[s], sum[p][s]);
      }
      for (size_t s = 0; s < kSums; ++s) total_[s] += static_cast<double>(fold(sum, s));
    }
  }
  HWY_INLINE float mean(size_t s, size_t count) const {
    return static_cast<float>(total_[s] / static_cast<double>(count));
  }

 private:
  static constexpr size_t kParts = kWidth / kLanes;

  // Halves are added until four numbers are left, as vectors of whatever width.
  static HWY_INLINE float fold(const Vector (&sum)[kParts][kSums], size_t s) {
    Vector part[kParts];
    for (size_t p = 0; p < kParts; ++p) part[p] = sum[p][s];
    for (size_t half = kParts / 2; half > 0; half /= 2)
      for (size_t p = 0; p < half; ++p) part[p] = hn::Add(part[p], part[half + p]);
    return fold_lanes(Chain(), part[0]);
  }
  template <class D>
  static HWY_INLINE float fold_lanes(D d, hn::VFromD<D> v) {
#if HWY_TARGET == HWY_SCALAR
    return hn::GetLane(v);
#else
    if constexpr (hn::MaxLanes(D()) > 4) {
      const hn::Half<D> half;
      return fold_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    } else {
      HWY_ALIGN float values[4];
      hn::Store(v, d, values);
      return (values[0] + values[2]) + (values[1] + values[3]);
    }
#endif
  }

  double total_[kSums] = {};
};

template <class T>
RowStatistics statistics(const T* x, size_t count, float eps) {
  const Chain d;
  Chains<1, 64> sum;
  sum.add(count, [&](Vector* s, size_t i, size_t n) HWY_ATTR { s[0] = hn::Add(s[0], load(x + i, n)); });
  const float mean = sum.mean(0, count);
  const Vector center = hn::Set(d, mean);
  Chains<1, 64> squares;
  squares.add(count, [&](Vector* s, size_t i, size_t n) HWY_ATTR {
    const Vector c = hn::Sub(load(x + i, n), center);
    s[0] = hn::MulAdd(c, c, s[0]);
  });
  return {mean, 1.0f / std::sqrt(squares.mean(0, count) + eps)};
}

// each(i, n) for the vectors of a row; the last may be partial.
template <class Each>
HWY_INLINE void each_vector(size_t count, Each each) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) each(i, kLanes);
  if (i < count) each(i, count - i);
}

template <bool kWeight, bool kBias, class T>
HWY_INLINE void normalize_row(const T* x, size_t count, RowStatistics s, const T* weight, const T* bias,
                              T* y) {
  const Chain d;
  const Vector mean = hn::Set(d, s.mean), rstd = hn::Set(d, s.rstd);
  each_vector(count, [&](size_t i, size_t n) HWY_ATTR {
    Vector v = hn::Mul(hn::Sub(load(x + i, n), mean), rstd);
    if (kWeight && kBias)
      v = hn::MulAdd(v, load(weight + i, n), load(bias + i, n));
    else if (kWeight)
      v = hn::Mul(v, load(weight + i, n));
    else if (kBias)
      v = hn::Add(v, load(bias + i, n));
    store(v, y + i, n);
  });
}
template <class T>
void normalize(const T* x, size_t count, RowStatistics s, const T* weight, const T* bias, T* y) {
  if (weight != nullptr && bias != nullptr) return normalize_row<true, true>(x, count, s, weight, bias, y);
  if (weight != nullptr) return normalize_row<true, false>(x, count, s, weight, bias, y);
  if (bias != nullptr) return normalize_row<false, true>(x, count, s, weight, bias, y);
  normalize_row<false, false>(x, count, s, weight, bias, y);
}

template <bool kWeight, class T>
HWY_INLINE void gradient_row(const T* x, const T* dy, size_t count, RowStatistics s, const T* weight, T* dx) {
  const Chain d;
  const Vector mean = hn::Set(d, s.mean), rstd = hn::Set(d, s.rstd);
  const auto slope = [&](size_t i, size_t n) HWY_ATTR {
    return kWeight ? hn::Mul(load(dy + i, n), load(weight + i, n)) : load(dy + i, n);
  };
  const auto normalized = [&](size_t i, size_t n)
                              HWY_ATTR { return hn::Mul(hn::Sub(load(x + i, n), mean), rstd); };
  Chains<2, 32> sums;
  sums.add(count, [&](Vector* sum, size_t i, size_t n) HWY_ATTR {
    const Vector g = slope(i, n);
    sum[0] = hn::Add(sum[0], g);
    sum[1] = hn::MulAdd(g, normalized(i, n), sum[1]);
  });
  const Vector mean_g = hn::Set(d, sums.mean(0, count)), mean_gn = hn::Set(d, sums.mean(1, count));
  each_vector(count, [&](size_t i, size_t n) HWY_ATTR {
    const Vector rest = hn::NegMulAdd(normalized(i, n), mean_gn, hn::Sub(slope(i, n), mean_g));
    store(hn::Mul(rest, rstd), dx + i, n);
  });
}
template <class T>
void gradient(const T* x, const T* dy, size_t count, RowStatistics s, const T* weight, T* dx) {
  if (weight != nullptr) return gradient_row<true>(x, dy, count, s, weight, dx);
  gradient_row<false>(x, dy, count, s, weight, dx);
}

// `kParts` vectors of a row, the last of `n` elements.
template <size_t kParts, class T>
HWY_INLINE void add_rows_of(const T* x, const T* dy, size_t rows, size_t n, size_t stride, const float* means,
                            const float* rstds, float* dweight, float* dbias) {
  const Chain d;
  Vector weight[kParts], bias[kParts];
  for (size_t p = 0; p < kParts; ++p) weight[p] = bias[p] = hn::Zero(d);
  for (size_t r = 0; r < rows; ++r) {
    const Vector mean = hn::Set(d, means[r]), rstd = hn::Set(d, rstds[r]);
    for (size_t p = 0; p < kParts; ++p) {
      const size_t k = p + 1 == kParts ? n : kLanes, at = r * stride + p * kLanes;
      const Vector slope = load(dy + at, k);
      bias[p] = hn::Add(bias[p], slope);
      weight[p] = hn::MulAdd(slope, hn::Mul(hn::Sub(load(x + at, k), mean), rstd), weight[p]);
    }
  }
  for (size_t p = 0; p < kParts; ++p) {
    const size_t k = p + 1 == kParts ? n : kLanes;
    store(weight[p], dweight + p * kLanes, k);
    store(bias[p], dbias + p * kLanes, k);
  }
}
template <class T>
void add_rows(const T* x, const T* dy, size_t rows, size_t columns, size_t stride, const float* means,
              const float* rstds, float* dweight, float* dbias) {
  constexpr size_t kWide = 32, kParts = kWide / kLanes;  // columns whose sums fit into registers
  size_t c = 0;
  for (; c + kWide <= columns; c += kWide)
    add_rows_of<kParts>(x + c, dy + c, rows, kLanes, stride, means, rstds, dweight + c, dbias + c);
  for (; c < columns; c += kLanes)
    add_rows_of<1>(x + c, dy + c, rows, std::min(kLanes, columns - c), stride, means, rstds, dweight + c,
                   dbias + c);
}

template <class T>
constexpr RowNorm<T> functions() {
  return {statistics<T>, normalize<T>, gradient<T>, add_rows<T>};
}
const RowNorm<float>& target_row_norm() {
  static const RowNorm<float> of_floats = functions<float>();
  return of_floats;
}
const RowNorm<uint16_t>& target_half_row_norm() {
  static const RowNorm<uint16_t> of_halves = functions<uint16_t>();
  return of_halves;
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_row_norm);
HWY_EXPORT(target_half_row_norm);
template <>
const RowNorm<float>& row_norm<float>() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_row_norm)();
}
template <>
const RowNorm<uint16_t>& row_norm<uint16_t>() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_half_row_norm)();
}
}  // namespace ipu::kernels
#endif
