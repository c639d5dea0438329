// Highway bodies of the hot opcodes, compiled once per instruction set. Each element is computed
// independently of its neighbours and of the vector width; the tail of a block runs the same code under a
// mask. Not here: functions through f64 (scalar_ops.cc), the polynomials (vector_math-inl.h).
#include "kernels/pointwise/block_ops.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/block_ops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/partial_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using I = hn::ScalableTag<int32_t>;
using U = hn::ScalableTag<uint32_t>;

// A source of a block: a stream of elements or one splatted value.
template <class D>
struct Source {
  using T = hn::TFromD<D>;
  const T* at;
  size_t stride;
  HWY_INLINE Source(const void* from, size_t s) : at(static_cast<const T*>(from)), stride(s) {}
  HWY_INLINE hn::VFromD<D> load(D d, size_t i) const { return hn::LoadU(d, at + i * stride); }
  HWY_INLINE hn::VFromD<D> load_tail(D d, size_t i, size_t count) const {
    return stride ? load_first(d, at + i, count) : hn::LoadU(d, at);
  }
};

// Op::apply(d, vectors...) over a block; D tags the sources, R the result.
template <class Op, class D, class R = D>
void unary(const BlockCall& call) {
  const D d;
  const R r;
  const Source<D> a(call.a, call.stride_a);
  auto* to = static_cast<hn::TFromD<R>*>(call.result);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= call.count; i += 2 * lanes) {
    const auto first = Op::apply(d, a.load(d, i));
    const auto second = Op::apply(d, a.load(d, i + lanes));
    hn::StoreU(first, r, to + i);
    hn::StoreU(second, r, to + i + lanes);
  }
  for (; i + lanes <= call.count; i += lanes) hn::StoreU(Op::apply(d, a.load(d, i)), r, to + i);
  if (size_t rest = call.count - i; rest != 0)
    store_first(r, Op::apply(d, a.load_tail(d, i, rest)), to + i, rest);
}

template <class Op, class D, class R = D>
void binary(const BlockCall& call) {
  const D d;
  const R r;
  const Source<D> a(call.a, call.stride_a), b(call.b, call.stride_b);
  auto* to = static_cast<hn::TFromD<R>*>(call.result);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= call.count; i += 2 * lanes) {
    const auto first = Op::apply(d, a.load(d, i), b.load(d, i));
    const auto second = Op::apply(d, a.load(d, i + lanes), b.load(d, i + lanes));
    hn::StoreU(first, r, to + i);
    hn::StoreU(second, r, to + i + lanes);
  }
  for (; i + lanes <= call.count; i += lanes) hn::StoreU(Op::apply(d, a.load(d, i), b.load(d, i)), r, to + i);
  if (size_t rest = call.count - i; rest != 0)
    store_first(r, Op::apply(d, a.load_tail(d, i, rest), b.load_tail(d, i, rest)), to + i, rest);
}

template <class Op, class D>
void ternary(const BlockCall& call) {
  const D d;
  const Source<D> a(call.a, call.stride_a), b(call.b, call.stride_b), c(call.c, call.stride_c);
  auto* to = static_cast<hn::TFromD<D>*>(call.result);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= call.count; i += 2 * lanes) {
    const auto first = Op::apply(d, a.load(d, i), b.load(d, i), c.load(d, i));
    const auto second = Op::apply(d, a.load(d, i + lanes), b.load(d, i + lanes), c.load(d, i + lanes));
    hn::StoreU(first, d, to + i);
    hn::StoreU(second, d, to + i + lanes);
  }
  for (; i + lanes <= call.count; i += lanes)
    hn::StoreU(Op::apply(d, a.load(d, i), b.load(d, i), c.load(d, i)), d, to + i);
  if (size_t rest = call.count - i; rest != 0)
    store_first(d, Op::apply(d, a.load_tail(d, i, rest), b.load_tail(d, i, rest), c.load_tail(d, i, rest)),
                to + i, rest);
}

#define IPU_BLOCK_OP1(Name, expression)                       \
  struct Name {                                               \
    template <class D, class V>                               \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a) { \
      return expression;                                      \
    }                                                         \
  };
#define IPU_BLOCK_OP2(Name, expression)                            \
  struct Name {                                                    \
    template <class D, class V>                                    \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a, V b) { \
      return expression;                                           \
    }                                                              \
  };
#define IPU_BLOCK_OP3(Name, expression)                                 \
  struct Name {                                                         \
    template <class D, class V>                                         \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a, V b, V c) { \
      return expression;                                                \
    }                                                                   \
  };

// A mask as the boolean register value 0 or 1.
template <class D, class M>
HWY_INLINE auto as_boolean(D d, M mask) {
  const U u;
  return hn::IfThenElseZero(hn::RebindMask(u, mask), hn::Set(u, 1u));
}
template <class D, class V>
[[maybe_unused]] HWY_INLINE V not_a_number_first(D d, V a, V b, V otherwise) {
  return hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Eq(b, b), otherwise, b), a);
}

IPU_BLOCK_OP2(Add, hn::Add(a, b))
IPU_BLOCK_OP2(Sub, hn::Sub(a, b))
IPU_BLOCK_OP2(Mul, hn::Mul(a, b))
IPU_BLOCK_OP2(Div, hn::Div(a, b))
IPU_BLOCK_OP2(Min, hn::Min(a, b))
IPU_BLOCK_OP2(Max, hn::Max(a, b))
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
// x86 gives the second operand for NaN and for equal ones, so only a NaN in b needs care.
IPU_BLOCK_OP2(MinNan, hn::IfThenElse(hn::Eq(b, b), hn::Min(b, a), b))
IPU_BLOCK_OP2(MaxNan, hn::IfThenElse(hn::Eq(b, b), hn::Max(b, a), b))
#else
IPU_BLOCK_OP2(MinNan, not_a_number_first(d, a, b, hn::IfThenElse(hn::Lt(b, a), b, a)))
IPU_BLOCK_OP2(MaxNan, not_a_number_first(d, a, b, hn::IfThenElse(hn::Gt(b, a), b, a)))
#endif
IPU_BLOCK_OP1(Neg, hn::Neg(a))
IPU_BLOCK_OP1(Abs, hn::Abs(a))
IPU_BLOCK_OP1(Sign, hn::Sub(hn::IfThenElseZero(hn::Gt(a, hn::Zero(d)), hn::Set(d, 1.0f)),
                            hn::IfThenElseZero(hn::Lt(a, hn::Zero(d)), hn::Set(d, 1.0f))))
IPU_BLOCK_OP1(Sqrt, hn::Sqrt(a))
IPU_BLOCK_OP1(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(a)))
IPU_BLOCK_OP1(Reciprocal, hn::Div(hn::Set(d, 1.0f), a))
IPU_BLOCK_OP1(Exp, exp(d, a))
IPU_BLOCK_OP1(Expm1, expm1(d, a))
IPU_BLOCK_OP1(Log, log(d, a))
IPU_BLOCK_OP1(Log1p, log1p(d, a))
IPU_BLOCK_OP1(Tanh, tanh(d, a))
IPU_BLOCK_OP1(Sigmoid, sigmoid(d, a))
IPU_BLOCK_OP1(Erf, erf(d, a))
IPU_BLOCK_OP1(Floor, hn::Floor(a))
IPU_BLOCK_OP1(Ceil, hn::Ceil(a))
IPU_BLOCK_OP1(Round, hn::Round(a))
IPU_BLOCK_OP1(Trunc, hn::Trunc(a))
// hn::Ne is false for NaN on x86.
IPU_BLOCK_OP1(IsNan, as_boolean(d, hn::Not(hn::Eq(a, a))))
IPU_BLOCK_OP3(Fma, hn::MulAdd(a, b, c))
IPU_BLOCK_OP2(Equal, as_boolean(d, hn::Eq(a, b)))
IPU_BLOCK_OP2(NotEqual, as_boolean(d, hn::Not(hn::Eq(a, b))))
IPU_BLOCK_OP2(Less, as_boolean(d, hn::Lt(a, b)))
IPU_BLOCK_OP2(LessEqual, as_boolean(d, hn::Le(a, b)))
IPU_BLOCK_OP2(Greater, as_boolean(d, hn::Gt(a, b)))
IPU_BLOCK_OP2(GreaterEqual, as_boolean(d, hn::Ge(a, b)))
IPU_BLOCK_OP2(And, hn::And(a, b))
IPU_BLOCK_OP2(Or, hn::Or(a, b))
IPU_BLOCK_OP2(Xor, hn::Xor(a, b))
IPU_BLOCK_OP1(Not, hn::Not(a))
IPU_BLOCK_OP1(NotBoolean, hn::Xor(a, hn::Set(d, 1u)))
IPU_BLOCK_OP3(Select, hn::IfThenElse(hn::Ne(a, hn::Zero(d)), b, c))
IPU_BLOCK_OP1(ToFloat, hn::ConvertTo(F(), a))
IPU_BLOCK_OP1(BooleanToFloat,
              hn::IfThenElseZero(hn::RebindMask(F(), hn::Ne(a, hn::Zero(d))), hn::Set(F(), 1.0f)))
IPU_BLOCK_OP1(IsNonZero, as_boolean(d, hn::Not(hn::Eq(a, hn::Zero(d)))))
IPU_BLOCK_OP2(ExpDifference, exp(d, hn::Sub(a, b)))
IPU_BLOCK_OP3(SubtractTwice, hn::Sub(hn::Sub(a, b), c))
IPU_BLOCK_OP3(DifferenceTimes, hn::Mul(hn::Sub(a, b), c))
IPU_BLOCK_OP3(MinusExpTimes, hn::NegMulAdd(exp(d, b), c, a))

template <class First, class Second>
struct PairLeft {
  template <class D, class V>
  static HWY_INLINE auto apply(D d, V a, V b, V c) {
    return Second::apply(d, First::apply(d, a, b), c);
  }
};
template <class First, class Second>
struct PairRight {
  template <class D, class V>
  static HWY_INLINE auto apply(D d, V a, V b, V c) {
    return Second::apply(d, c, First::apply(d, a, b));
  }
};
// In the order of pair_function().
template <class First>
std::array<BlockFunction, 10> pairs_of() {
  return {ternary<PairLeft<First, Add>, F>,    ternary<PairLeft<First, Sub>, F>,
          ternary<PairRight<First, Sub>, F>,   ternary<PairLeft<First, Mul>, F>,
          ternary<PairLeft<First, MaxNan>, F>, ternary<PairRight<First, MaxNan>, F>,
          ternary<PairLeft<First, MinNan>, F>, ternary<PairRight<First, MinNan>, F>,
          ternary<PairLeft<First, Div>, F>,    ternary<PairRight<First, Div>, F>};
}

// Saturates; the clamp is exact because 2^31 is a float and comparisons with NaN are false.
struct ToInteger {
  template <class D, class V>
  static HWY_INLINE auto apply(D d, V a) {
    const I i;
    auto too_large = hn::Ge(a, hn::Set(d, 2147483648.0f));
    auto too_small = hn::Lt(a, hn::Set(d, -2147483648.0f));
    auto inside = hn::IfThenElseZero(hn::Eq(a, a), hn::IfThenZeroElse(hn::Or(too_large, too_small), a));
    auto value = hn::ConvertTo(i, inside);
    value =
        hn::IfThenElse(hn::RebindMask(i, too_large), hn::Set(i, std::numeric_limits<int32_t>::max()), value);
    return hn::IfThenElse(hn::RebindMask(i, too_small), hn::Set(i, std::numeric_limits<int32_t>::min()),
                          value);
  }
};

// sin and cos; elements beyond the reduction's range are recomputed through f64.
template <int kQuarters>
void trigonometric(const BlockCall& call) {
  const F d;
  const Source<F> a(call.a, call.stride_a);
  auto* to = static_cast<float*>(call.result);
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < call.count; i += lanes) {
    const size_t rest = call.count - i < lanes ? call.count - i : lanes;
    auto x = a.load_tail(d, i, rest);
    auto value = sin_shifted(d, x, kQuarters);
    if (kQuarters == 0) value = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, value);  // -0
    HWY_ALIGN float large[hn::MaxLanes(d)];
    bool any_large = !hn::AllFalse(d, hn::Gt(hn::Abs(x), hn::Set(d, kTrigonometricLimit)));
    if (any_large) hn::Store(x, d, large);
    store_first(d, value, to + i, rest);
    if (any_large)
      for (size_t k = 0; k < rest; ++k)
        if (std::fabs(large[k]) > kTrigonometricLimit) {
          double exact = kQuarters == 0 ? std::sin(static_cast<double>(large[k]))
                                        : std::cos(static_cast<double>(large[k]));
          to[i + k] = static_cast<float>(exact);
        }
  }
}

void round_f16(const BlockCall& call) {
  const auto* from = static_cast<const float*>(call.a);
  auto* to = static_cast<float*>(call.result);
  size_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const F d;
  const hn::Rebind<hwy::float16_t, F> half;
  const size_t lanes = hn::Lanes(d);
  for (; i + lanes <= call.count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::DemoteTo(half, hn::LoadU(d, from + i * call.stride_a))), d, to + i);
#endif
  for (; i < call.count; ++i) to[i] = static_cast<float>(static_cast<_Float16>(from[i * call.stride_a]));
}

void widen_f16(const BlockCall& call) {
  const auto* from = static_cast<const _Float16*>(call.a);
  auto* to = static_cast<float*>(call.result);
  size_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const F d;
  const hn::Rebind<hwy::float16_t, F> half;
  const size_t lanes = hn::Lanes(d);
  for (; i + lanes <= call.count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), d,
               to + i);
#endif
  for (; i < call.count; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow_f16(const BlockCall& call) {
  const auto* from = static_cast<const float*>(call.a);
  auto* to = static_cast<_Float16*>(call.result);
  size_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const F d;
  const hn::Rebind<hwy::float16_t, F> half;
  const size_t lanes = hn::Lanes(d);
  if (call.stride_a == 1)
    for (; i + lanes <= call.count; i += lanes)
      hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, reinterpret_cast<hwy::float16_t*>(to + i));
#endif
  for (; i < call.count; ++i) to[i] = static_cast<_Float16>(from[i * call.stride_a]);
}

// Small integers: plain loops, the compiler has this target's instructions here.
template <class Memory, class Register>
void widen_integer(const BlockCall& call) {
  const auto* from = static_cast<const Memory*>(call.a);
  auto* to = static_cast<Register*>(call.result);
  for (size_t i = 0; i < call.count; ++i) to[i] = static_cast<Register>(from[i]);
}
template <class Memory, class Register>
void narrow_integer(const BlockCall& call) {
  const auto* from = static_cast<const Register*>(call.a);
  auto* to = static_cast<Memory*>(call.result);
  for (size_t i = 0; i < call.count; ++i) to[i] = static_cast<Memory>(from[i * call.stride_a]);
}
void widen_bool(const BlockCall& call) {
  const auto* from = static_cast<const uint8_t*>(call.a);
  auto* to = static_cast<uint32_t*>(call.result);
  for (size_t i = 0; i < call.count; ++i) to[i] = from[i] != 0;
}
IPU_BLOCK_OP1(Copy, a)

BlockOps make_block_ops() {
  BlockOps ops;
  auto set = [&](OpCode code, BlockFunction function) { ops.compute[static_cast<size_t>(code)] = function; };
  for (size_t i = 0; i < kOpCodeCount; ++i) ops.compute[i] = scalar_block_function(static_cast<OpCode>(i));
  set(OpCode::kAddF, binary<Add, F>);
  set(OpCode::kSubF, binary<Sub, F>);
  set(OpCode::kMulF, binary<Mul, F>);
  set(OpCode::kDivF, binary<Div, F>);
  set(OpCode::kMinF, binary<MinNan, F>);
  set(OpCode::kMaxF, binary<MaxNan, F>);
  set(OpCode::kNegF, unary<Neg, F>);
  set(OpCode::kAbsF, unary<Abs, F>);
  set(OpCode::kSignF, unary<Sign, F>);
  set(OpCode::kSqrtF, unary<Sqrt, F>);
  set(OpCode::kRsqrtF, unary<Rsqrt, F>);
  set(OpCode::kReciprocalF, unary<Reciprocal, F>);
  set(OpCode::kExpF, unary<Exp, F>);
  set(OpCode::kExpm1F, unary<Expm1, F>);
  set(OpCode::kLogF, unary<Log, F>);
  set(OpCode::kLog1pF, unary<Log1p, F>);
  set(OpCode::kTanhF, unary<Tanh, F>);
  set(OpCode::kSigmoidF, unary<Sigmoid, F>);
  set(OpCode::kErfF, unary<Erf, F>);
  set(OpCode::kSinF, trigonometric<0>);
  set(OpCode::kCosF, trigonometric<1>);
  set(OpCode::kFloorF, unary<Floor, F>);
  set(OpCode::kCeilF, unary<Ceil, F>);
  set(OpCode::kRoundF, unary<Round, F>);
  set(OpCode::kTruncF, unary<Trunc, F>);
  set(OpCode::kIsNanF, unary<IsNan, F, U>);
  set(OpCode::kFmaF, ternary<Fma, F>);
  set(OpCode::kEqF, binary<Equal, F, U>);
  set(OpCode::kNeF, binary<NotEqual, F, U>);
  set(OpCode::kLtF, binary<Less, F, U>);
  set(OpCode::kLeF, binary<LessEqual, F, U>);
  set(OpCode::kGtF, binary<Greater, F, U>);
  set(OpCode::kGeF, binary<GreaterEqual, F, U>);
  set(OpCode::kAddI, binary<Add, U>);
  set(OpCode::kSubI, binary<Sub, U>);
  set(OpCode::kMulI, binary<Mul, U>);
  set(OpCode::kMinI, binary<Min, I>);
  set(OpCode::kMaxI, binary<Max, I>);
  set(OpCode::kMinU, binary<Min, U>);
  set(OpCode::kMaxU, binary<Max, U>);
  set(OpCode::kEqI, binary<Equal, I, U>);
  set(OpCode::kNeI, binary<NotEqual, I, U>);
  set(OpCode::kLtI, binary<Less, I, U>);
  set(OpCode::kGtI, binary<Greater, I, U>);
  set(OpCode::kAndI, binary<And, U>);
  set(OpCode::kOrI, binary<Or, U>);
  set(OpCode::kXorI, binary<Xor, U>);
  set(OpCode::kNotI, unary<Not, U>);
  set(OpCode::kAndB, binary<And, U>);
  set(OpCode::kOrB, binary<Or, U>);
  set(OpCode::kXorB, binary<Xor, U>);
  set(OpCode::kNotB, unary<NotBoolean, U>);
  set(OpCode::kSelect, ternary<Select, U>);
  set(OpCode::kI32ToF, unary<ToFloat, I, F>);
  set(OpCode::kFToI32, unary<ToInteger, F, I>);
  set(OpCode::kBoolToF, unary<BooleanToFloat, U, F>);
  set(OpCode::kBoolToI, unary<Copy, U>);
  set(OpCode::kFToBool, unary<IsNonZero, F, U>);
  set(OpCode::kIToBool, unary<IsNonZero, U>);
  set(OpCode::kRoundF16, round_f16);
  ops.pairs = {pairs_of<Add>(), pairs_of<Sub>(), pairs_of<Mul>()};
  ops.exp_difference = binary<ExpDifference, F>;
  ops.subtract_twice = ternary<SubtractTwice, F>;
  ops.difference_times = ternary<DifferenceTimes, F>;
  ops.minus_exp_times = ternary<MinusExpTimes, F>;

  auto memory = [&](DType dtype, BlockFunction widen, BlockFunction narrow) {
    ops.widen[static_cast<size_t>(dtype)] = widen;
    ops.narrow[static_cast<size_t>(dtype)] = narrow;
  };
  for (DType dtype : {DType::kF32, DType::kI32, DType::kU32}) memory(dtype, unary<Copy, U>, unary<Copy, U>);
  memory(DType::kF16, widen_f16, narrow_f16);
  memory(DType::kI16, widen_integer<int16_t, int32_t>, narrow_integer<int16_t, int32_t>);
  memory(DType::kU16, widen_integer<uint16_t, uint32_t>, narrow_integer<uint16_t, uint32_t>);
  memory(DType::kI8, widen_integer<int8_t, int32_t>, narrow_integer<int8_t, int32_t>);
  memory(DType::kU8, widen_integer<uint8_t, uint32_t>, narrow_integer<uint8_t, uint32_t>);
  memory(DType::kBool, widen_bool, narrow_integer<uint8_t, uint32_t>);
  return ops;
}

const BlockOps& target_block_ops() {
  static const BlockOps ops = make_block_ops();
  return ops;
}

#undef IPU_BLOCK_OP1
#undef IPU_BLOCK_OP2
#undef IPU_BLOCK_OP3
}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_block_ops);
const BlockOps& block_ops() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_block_ops)();
}

BlockFunction pair_function(const BlockOps& ops, OpCode first, OpCode second, bool is_left) {
  size_t row = 0, column = 0;
  switch (first) {
    case OpCode::kAddF:
      row = 0;
      break;
    case OpCode::kSubF:
      row = 1;
      break;
    case OpCode::kMulF:
      row = 2;
      break;
    default:
      return nullptr;
  }
  switch (second) {
    case OpCode::kAddF:
      column = 0;
      break;  // commutes
    case OpCode::kSubF:
      column = is_left ? 1 : 2;
      break;
    case OpCode::kMulF:
      column = 3;
      break;
    case OpCode::kMaxF:
      column = is_left ? 4 : 5;
      break;
    case OpCode::kMinF:
      column = is_left ? 6 : 7;
      break;
    case OpCode::kDivF:
      column = is_left ? 8 : 9;
      break;
    default:
      return nullptr;
  }
  return ops.pairs[row][column];
}
}  // namespace ipu::kernels
#endif
