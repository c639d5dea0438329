// Highway bodies of row_softmax.h. A step handles 16 elements as one vector or two, so chains are the same
// everywhere.
#include "kernels/softmax/row_softmax.h"

#include <limits>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax/row_softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/partial_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Chain = hn::CappedTag<float, 16>;
using Vector = hn::VFromD<Chain>;
constexpr size_t kLanes = hn::MaxLanes(Chain());
constexpr size_t kVectors = 16 / kLanes;

// Lane k of the chains, folded 16 → 8 → ... → 1.
template <class Op>
HWY_INLINE float fold_chains(const Vector (&chain)[kVectors], Op op) {
  HWY_ALIGN float values[16];
  for (size_t v = 0; v < kVectors; ++v) hn::Store(chain[v], Chain(), values + v * kLanes);
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k) values[k] = op(values[k], values[half + k]);
  return values[0];
}
HWY_INLINE float add(float a, float b) { return a + b; }
HWY_INLINE float larger(float a, float b) { return a > b ? a : b; }

// step(vector number, first element, elements) for the vectors of a row; the last may be partial.
template <class Step>
HWY_INLINE void each_vector(size_t count, Step step) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (size_t v = 0; v < kVectors; ++v) step(v, i + v * kLanes, kLanes);
  for (size_t v = 0; i < count; ++v, i += kLanes) step(v, i, count - i < kLanes ? count - i : kLanes);
}
HWY_INLINE Vector load(const float* from, size_t n) { return load_up_to(Chain(), from, n); }
HWY_INLINE void store(Vector v, float* to, size_t n) { store_up_to(Chain(), v, to, n); }
// Elements from n on replaced by `other`.
HWY_INLINE Vector first_or(Vector v, size_t n, Vector other) {
  return n == kLanes ? v : hn::IfThenElse(hn::FirstN(Chain(), n), v, other);
}

// Returns the largest number of a row. It may miss a NaN, which the sum of exponentials then finds.
HWY_INLINE float maximum(const float* x, size_t count) {
  const Chain d;
  const Vector lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector chain[kVectors];
  for (size_t v = 0; v < kVectors; ++v) chain[v] = lowest;
  each_vector(count, [&](size_t v, size_t i, size_t n) HWY_ATTR {
    const Vector b = first_or(load(x + i, n), n, lowest);
    chain[v] = hn::IfThenElse(hn::Gt(chain[v], b), chain[v], b);
  });
  return fold_chains(chain, larger);
}

// Sum over the row of make(i, n), which also may store; elements beyond the row do not count.
template <class Make>
HWY_INLINE float sum_of(size_t count, Make make) {
  const Chain d;
  Vector chain[kVectors];
  for (size_t v = 0; v < kVectors; ++v) chain[v] = hn::Zero(d);
  each_vector(count, [&](size_t v, size_t i, size_t n)
                         HWY_ATTR { chain[v] = hn::Add(chain[v], first_or(make(i, n), n, hn::Zero(d))); });
  return fold_chains(chain, add);
}

float largest(const float* x, size_t count) { return maximum(x, count); }

float exponentials(const float* x, size_t count, float shift, float* out) {
  const Chain d;
  const Vector least = hn::Set(d, shift);
  return sum_of(count, [&](size_t i, size_t n) HWY_ATTR {
    const Vector e = exp(d, hn::Sub(load(x + i, n), least));
    store(e, out + i, n);
    return e;
  });
}

void divide(float* x, size_t count, float by) {
  const Vector divisor = hn::Set(Chain(), by);
  each_vector(
      count, [&](size_t, size_t i, size_t n) HWY_ATTR { store(hn::Div(load(x + i, n), divisor), x + i, n); });
}

// A row of -inf has the sum 0 when nothing is subtracted: with `kZero` it is divided by 1.
template <bool kZero>
HWY_INLINE void softmax_row(const float* x, size_t count, float* out) {
  float shift = maximum(x, count);
  if (kZero && shift == -std::numeric_limits<float>::infinity()) shift = 0.0f;
  const float sum = exponentials(x, count, shift, out);
  divide(out, count, kZero && sum == 0.0f ? 1.0f : sum);
}
void softmax(const float* x, size_t count, float* out) { softmax_row<false>(x, count, out); }
void softmax_or_zero(const float* x, size_t count, float* out) { softmax_row<true>(x, count, out); }

void log_softmax(const float* x, size_t count, float* out) {
  const Chain d;
  const Vector shift = hn::Set(d, maximum(x, count));
  const float sum =
      sum_of(count, [&](size_t i, size_t n) HWY_ATTR { return exp(d, hn::Sub(load(x + i, n), shift)); });
  const Vector logarithm = log(d, hn::Set(d, sum));
  each_vector(count, [&](size_t, size_t i, size_t n)
                         HWY_ATTR { store(hn::Sub(hn::Sub(load(x + i, n), shift), logarithm), out + i, n); });
}

float products(const float* y, const float* dy, size_t count) {
  return sum_of(count, [&](size_t i, size_t n) HWY_ATTR { return hn::Mul(load(y + i, n), load(dy + i, n)); });
}

void gradient(const float* y, const float* dy, size_t count, float sum, float* out) {
  const Vector all = hn::Set(Chain(), sum);
  each_vector(count, [&](size_t, size_t i, size_t n) HWY_ATTR {
    store(hn::Mul(hn::Sub(load(dy + i, n), all), load(y + i, n)), out + i, n);
  });
}

void softmax_gradient(const float* y, const float* dy, size_t count, float* out) {
  gradient(y, dy, count, products(y, dy, count), out);
}

void log_softmax_gradient(const float* y, const float* dy, size_t count, float* out) {
  const Chain d;
  const Vector sum = hn::Set(d, sum_of(count, [&](size_t i, size_t n) HWY_ATTR { return load(dy + i, n); }));
  each_vector(count, [&](size_t, size_t i, size_t n) HWY_ATTR {
    store(hn::NegMulAdd(exp(d, load(y + i, n)), sum, load(dy + i, n)), out + i, n);
  });
}

const RowSoftmax& target_row_softmax() {
  static const RowSoftmax functions{softmax,  softmax_or_zero,     largest,          exponentials,
                                    divide,   log_softmax,         softmax_gradient, products,
                                    gradient, log_softmax_gradient};
  return functions;
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_row_softmax);
const RowSoftmax& row_softmax() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_row_softmax)();
}
}  // namespace ipu::kernels
#endif
