// f32 elementary functions on Highway vectors: the same operations in the same order for every element, so
// AVX2 and AVX-512 agree to the bit. Errors in units in the last place, against f64, over the whole range
// (tested): exp, log, expm1, log1p, sin, cos, sigmoid, erf 2; tanh 2. NaN in gives NaN out; infinities and
// signed zeros as C's. Included once per target inside foreach_target; polynomials are minimax fits over the
// reduced ranges.
#if defined(IPU_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef IPU_KERNELS_VECTOR_MATH_INL_H_
#undef IPU_KERNELS_VECTOR_MATH_INL_H_
#else
#define IPU_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c[0] + x*(c[1] + x*(...)), one fused step per coefficient.
template <class D, class V, size_t N>
HWY_INLINE V polynomial(D d, V x, const float (&c)[N]) {
  V sum = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

// 2^n for n in [-126, 127], as a factor.
template <class D, class VI>
HWY_INLINE hn::VFromD<D> power_of_two(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}
// p * 2^n for normal p and result.
template <class D, class V, class VI>
HWY_INLINE V scale_exponent(D d, V p, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(n)));
}

// x = n*ln2 + r with |r| <= ln2/2. Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
template <class D>
struct ExpReduction {
  hn::VFromD<D> r;
  hn::VFromD<hn::RebindToSigned<D>> n;
};
template <class D, class V>
HWY_INLINE ExpReduction<D> reduce_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e400p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  return {r, hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic))};
}
// Limits where exp is 0 or infinite. x is the second operand: NaN stays.
template <class D, class V>
HWY_INLINE V clamp_exp(D d, V x) {
  return hn::Max(hn::Set(d, -104.0f), hn::Min(hn::Set(d, 89.0f), x));
}

// e^r for the reduced range.
template <class D, class V>
HWY_INLINE V exp_reduced(D d, V r) {
  static constexpr float kC[] = {0.5f,           0.166666672f,   0.0416662693f,
                                 0.00833326578f, 0.00139460864f, 0.000199178307f};
  return hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kC), r), hn::Set(d, 1.0f));
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  auto [r, n] = reduce_exp(d, clamp_exp(d, x));
  // Two factors: n reaches 128 and -150, where one would over- or underflow.
  auto half = hn::ShiftRight<1>(n);
  V result = hn::Mul(scale_exponent(d, exp_reduced(d, r), half), power_of_two(d, hn::Sub(n, half)));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

// The same for results that are normal numbers: -87 <= x <= 88. NaN gives no meaning.
template <class D, class V>
HWY_INLINE V exp_moderate(D d, V x) {
  auto [r, n] = reduce_exp(d, x);
  return scale_exponent(d, exp_reduced(d, r), n);
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  static constexpr float kC[] = {0.5f,           0.166666672f,   0.041666355f,
                                 0.00833327416f, 0.00139410223f, 0.000199135728f};
  auto [r, n] = reduce_exp(d, clamp_exp(d, x));
  V p = hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kC), r);
  // 2^n (p + 1) - 1, halved until the end because 2^128 is no float; below 2^-100 the power no longer
  // matters.
  const hn::RebindToSigned<D> di;
  n = hn::Max(n, hn::Set(di, -100));
  V scale = power_of_two(d, hn::Sub(n, hn::Set(di, 1)));
  V half = hn::MulAdd(scale, p, hn::Sub(scale, hn::Set(d, 0.5f)));
  V result = hn::Add(half, half);
  auto ordinary = hn::And(hn::Eq(x, x), hn::Ne(x, hn::Zero(d)));
  return hn::IfThenElse(ordinary, result, x);  // NaN, -0
}

// log of a positive normal or denormal number; other arguments are the caller's.
template <class D, class V>
HWY_INLINE V log_positive(D d, V x) {
  static constexpr float kC[] = {0.333333343f,  -0.249999657f, 0.200000361f,  -0.166694343f, 0.142869443f,
                                 -0.124250911f, 0.110120416f,  -0.107940413f, 0.107434407f,  -0.061515145f};
  const hn::RebindToSigned<D> di;
  auto denormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
  x = hn::IfThenElse(denormal, hn::Mul(x, hn::Set(d, 0x1p25f)), x);
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2))
  auto bits = hn::Sub(hn::BitCast(di, x), hn::Set(di, 0x3f3504f3));
  auto e = hn::ShiftRight<23>(bits);
  V f = hn::Sub(hn::BitCast(d, hn::Sub(hn::BitCast(di, x), hn::ShiftLeft<23>(e))), hn::Set(d, 1.0f));
  V exponent = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(denormal, hn::Set(d, 25.0f)));
  V square = hn::Mul(f, f);
  V tail = hn::Mul(hn::Mul(square, f), polynomial(d, f, kC));
  tail = hn::MulAdd(exponent, hn::Set(d, 0x1.7f7d1cp-20f), tail);
  tail = hn::NegMulAdd(hn::Set(d, 0.5f), square, tail);
  return hn::MulAdd(exponent, hn::Set(d, 0x1.62e400p-1f), hn::Add(f, tail));
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  V result = log_positive(d, x);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  result = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
  auto valid = hn::Ge(x, hn::Zero(d));  // false for negatives and NaN
  return hn::IfThenElse(valid, result, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
}

// log(1 + x) = log(u) + (x - (u - 1)) / u with u the rounded sum.
template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  V u = hn::Add(one, x);
  // The rounding error of the sum, exactly (Knuth).
  V back = hn::Sub(u, one);
  V lost = hn::Add(hn::Sub(one, hn::Sub(u, back)), hn::Sub(x, back));
  V result = hn::Add(log(d, u), hn::Div(lost, u));
  auto plain = hn::And(hn::Lt(u, hn::Set(d, std::numeric_limits<float>::infinity())), hn::Gt(u, hn::Zero(d)));
  result = hn::IfThenElse(plain, result, log(d, u));
  return hn::IfThenElse(hn::Eq(u, one), x, result);
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  static constexpr float kC[] = {-0.333333313f, 0.133332103f,    -0.0539472029f,
                                 0.0217029676f, -0.00818267372f, 0.00214753696f};
  V size = hn::Abs(x);
  V square = hn::Mul(x, x);
  V small = hn::MulAdd(hn::Mul(polynomial(d, square, kC), square), x, x);
  const V one = hn::Set(d, 1.0f);
  V grown = exp_moderate(d, hn::Min(hn::Add(size, size), hn::Set(d, 20.0f)));  // tanh(10) is 1
  V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(grown, one)));
  return hn::CopySign(hn::IfThenElse(hn::Ge(size, hn::Set(d, 0.625f)), large, small), x);
}

// e^x/(1 + e^x) for negative x keeps small results accurate where 1/(1 + e^-x) would overflow.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  V z = exp(d, hn::Neg(hn::Abs(x)));
  V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), z, one);
  return hn::Div(numerator, hn::Add(one, z));
}

// Small |x|: an odd polynomial. Large: 1 - exp(log(erfc)), with a polynomial for the logarithm.
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  static constexpr float kSmall[] = {0.128379166f,   -0.376126349f,   0.112836942f,   -0.0268592704f,
                                     0.00520063424f, -0.00081374374f, 8.34522507e-05f};
  static constexpr float kLarge[] = {-0.128555119f,  -0.635609269f,   -0.105294444f,  0.0227082986f,
                                     -0.0029516716f, 5.75130543e-05f, 4.3999964e-05f, -4.80647577e-06f};
  V size = hn::Abs(x);
  V square = hn::Mul(x, x);
  V small = hn::MulAdd(polynomial(d, square, kSmall), x, x);
  V t = hn::Min(size, hn::Set(d, 4.0f));  // erf(4) is 1
  V logarithm = hn::MulSub(polynomial(d, t, kLarge), t, t);
  V large = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), exp_moderate(d, logarithm)), x);
  return hn::IfThenElse(hn::Gt(size, hn::Set(d, 0.92f)), large, small);
}

// |x| below which the three-part reduction of sin and cos holds; beyond it callers use std:: in f64.
inline constexpr float kTrigonometricLimit = 30000.0f;

template <class D, class V>
HWY_INLINE V sin_shifted(D d, V x, int32_t quarters) {
  static constexpr float kSin[] = {-0.166666672f, 0.00833332911f, -0.000198393274f, 2.71823728e-06f};
  static constexpr float kCos[] = {0.0416666679f, -0.00138888834f, 2.47995122e-05f, -2.72095463e-07f};
  const hn::RebindToSigned<D> di;
  V n = hn::Round(hn::Mul(x, hn::Set(d, 0.636619772f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.921fb6p+0f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -0x1.777a5cp-25f), r);
  r = hn::NegMulAdd(n, hn::Set(d, -0x1.ee59dap-50f), r);
  V square = hn::Mul(r, r);
  V sine = hn::MulAdd(hn::Mul(polynomial(d, square, kSin), square), r, r);
  V cosine = hn::Mul(polynomial(d, square, kCos), hn::Mul(square, square));
  cosine = hn::Add(hn::NegMulAdd(hn::Set(d, 0.5f), square, hn::Set(d, 1.0f)), cosine);
  auto q = hn::Add(hn::ConvertTo(di, hn::IfThenElseZero(hn::Eq(x, x), n)), hn::Set(di, quarters));
  auto odd = hn::RebindMask(d, hn::Ne(hn::And(q, hn::Set(di, 1)), hn::Zero(di)));
  V value = hn::IfThenElse(odd, cosine, sine);
  auto sign = hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2)));
  return hn::BitCast(d, hn::Xor(hn::BitCast(di, value), sign));
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
