// f32 elementary functions on Highway vectors: the same operations in the same order for every element, so
// AVX2 and AVX-512 agree to the bit. Errors in units in the last place, against f64, over the whole range
// (tested): exp, log, expm1, log1p, sin, cos, tanh, erf 2; sigmoid 2.5; gelu and its slope 2, where results
// below 1 count as 1. NaN in gives NaN out; infinities and signed zeros as C's. Included once per target inside
// foreach_target; polynomials are minimax fits over the reduced ranges.
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

// NaN stays.
template <class D, class V>
HWY_INLINE V at_most(D d, V x, float limit) {
  const V most = hn::Set(d, limit);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE2
  return hn::Min(most, x);  // x86 gives the second operand for NaN
#else
  return hn::IfThenElse(hn::Lt(most, x), most, x);
#endif
}
template <class D, class V>
HWY_INLINE V at_least(D d, V x, float limit) {
  const V least = hn::Set(d, limit);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE2
  return hn::Max(least, x);
#else
  return hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
}

// x = n * ln2 + r with |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low
// bits, `bias` added; nine of them shifted to the top are a power of two.
template <class D>
struct ExpReduction {
  hn::VFromD<D> r;
  hn::VFromD<hn::RebindToSigned<D>> biased;  // n + bias in the low bits; those above 9 mean nothing
};
template <int kBias, class D, class V>
HWY_INLINE ExpReduction<D> reduce_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 0x1.8p23f + kBias);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e400p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  return {r, hn::BitCast(di, shifted)};
}
inline constexpr int kExponentBias = 127;
// 2^(biased - kExponentBias), for powers that are normal numbers.
template <class D, class VI>
HWY_INLINE hn::VFromD<D> power_of_two(D d, VI biased) {
  return hn::BitCast(d, hn::ShiftLeft<23>(biased));
}

// e^r - 1 for the reduced range: r + r^2 * (1/2 + r * (...)).
inline constexpr float kExpTail[] = {0.5f, 0.166665435f, 0.0416664332f, 0.00836655591f, 0.0013937921f};
template <class D, class V>
HWY_INLINE V expm1_reduced(D d, V r) {
  return hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kExpTail), r);
}

// power * e^r, with one rounding at the end. A NaN in r stays, whatever the power.
template <class D, class V>
HWY_INLINE V exp_reduced(D d, V r, V power) {
  return hn::MulAdd(power, expm1_reduced(d, r), power);
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  // Two factors: n reaches 128 and -150, where one would over- or underflow.
  auto [r, twice] = reduce_exp<2 * kExponentBias>(d, at_least(d, at_most(d, x, 89.0f), -104.0f));
  auto half = hn::ShiftRight<1>(twice);
  return hn::Mul(exp_reduced(d, r, power_of_two(d, half)), power_of_two(d, hn::Sub(twice, half)));
}

// The same for results that are normal numbers: -87 <= x <= 88.
template <class D, class V>
HWY_INLINE V exp_moderate(D d, V x) {
  auto [r, biased] = reduce_exp<kExponentBias>(d, x);
  return exp_reduced(d, r, power_of_two(d, biased));
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  // 2^n (p + 1) - 1, halved until the end because 2^128 is no float; below 2^-100 the power no longer
  // matters.
  auto [r, biased] = reduce_exp<kExponentBias - 1>(d, at_least(d, at_most(d, x, 89.0f), -69.0f));
  V scale = power_of_two(d, biased);
  V half = hn::MulAdd(scale, expm1_reduced(d, r), hn::Sub(scale, hn::Set(d, 0.5f)));
  V result = hn::Add(half, half);
  return hn::IfThenElse(hn::Ne(x, hn::Zero(d)), result, x);  // -0
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

// Small |x|: an odd polynomial. Large: 1 - 1 / (h + 1) with h = (e^2|x| - 1) / 2, where errors of h count little.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  static constexpr float kSmall[] = {-0.333333313f, 0.133332103f,    -0.0539472029f,
                                     0.0217029676f, -0.00818267372f, 0.00214753696f};
  static constexpr float kTail[] = {2 * kExpTail[0], 4 * kExpTail[1], 8 * kExpTail[2], 16 * kExpTail[3],
                                    32 * kExpTail[4]};
  const V half = hn::Set(d, 0.5f), magic = hn::Set(d, 0x1.8p23f + kExponentBias);
  const V size = at_most(d, hn::Abs(x), 10.0f);  // tanh(10) is 1
  const V shifted = hn::MulAdd(size, hn::Set(d, 2.88539008f), magic);
  const V r = hn::NegMulAdd(hn::Sub(shifted, magic), hn::Set(d, 0.346573591f), size);
  const V power = power_of_two(d, hn::BitCast(hn::RebindToSigned<D>(), shifted));
  const V p = hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kTail), r);  // (e^2r - 1) / 2
  const V h = hn::MulAdd(power, p, hn::MulSub(power, half, half));
  const V one = hn::Set(d, 1.0f);
  const V large = hn::Sub(one, hn::Div(one, hn::Add(h, one)));
  const V square = hn::Mul(size, size);
  const V small = hn::MulAdd(hn::Mul(polynomial(d, square, kSmall), square), size, size);
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), small, large), x);
}

// 1 / (1 + e^-x), both sides times 2^-32 so that the power stays a finite number down to the smallest results.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  static constexpr int kScale = 32;
  const V inside = at_least(d, at_most(d, x, 60.0f), -104.0f);
  auto [r, biased] = reduce_exp<kExponentBias - kScale>(d, hn::Neg(inside));
  const V one = hn::Set(d, 0x1p-32f);
  return hn::Div(one, hn::Add(one, exp_reduced(d, r, power_of_two(d, biased))));
}

// log2 of the normal distribution function at -|x|.
template <class D, class V>
HWY_INLINE V log2_normal_tail(D d, V size) {
  static constexpr float kC[] = {-1.0f,
                                 -1.15110493f,
                                 -0.459212989f,
                                 -0.0524703041f,
                                 0.00700059952f,
                                 -5.75777885e-05f,
                                 -0.000241587739f,
                                 6.07945949e-05f,
                                 -7.10321274e-06f,
                                 3.40505665e-07f};
  return polynomial(d, size, kC);
}

// x times the normal distribution function of x: max(x, 0) less the tail, |x| * 2^log2_normal_tail.
template <class D, class V>
HWY_INLINE V gelu(D d, V x) {
  static constexpr float kPower[] = {0.693147182f,   0.240226477f,   0.0555035956f,
                                     0.00961850304f, 0.00133909972f, 0.00015327803f};
  const V magic = hn::Set(d, 0x1.8p23f + kExponentBias);
  const V size = at_most(d, hn::Abs(x), 9.0f);  // where the tail is 2^-56
  const V logarithm = log2_normal_tail(d, size);
  const V shifted = hn::Add(logarithm, magic);
  const V f = hn::Sub(logarithm, hn::Sub(shifted, magic));
  const V power = power_of_two(d, hn::BitCast(hn::RebindToSigned<D>(), shifted));
  const V tail = hn::MulAdd(power, hn::Mul(f, polynomial(d, f, kPower)), power);
  return hn::NegMulAdd(size, tail, at_least(d, x, 0.0f));
}

// The slope of gelu: distribution function plus x times the density. For negative x that is e^(-x^2/2) times a
// polynomial, for positive x 1 less the same.
template <class D, class V>
HWY_INLINE V gelu_slope(D d, V x) {
  static constexpr float kC[] = {0.49999997f,     -0.797881901f,    0.249960527f,    -0.132748827f,
                                 0.0617870986f,   -0.0252821632f,   0.00884209201f,  -0.002502769f,
                                 0.000533839629f, -7.85527372e-05f, 6.98800704e-06f, -2.80073834e-07f};
  const V size = at_most(d, hn::Abs(x), 9.0f);
  const V density = exp_moderate(d, hn::Mul(hn::Mul(size, size), hn::Set(d, -0.5f)));
  const V tail = hn::Mul(density, polynomial(d, size, kC));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
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
