// Highway bodies of the hot opcodes, compiled once per instruction set. Each element is computed
// independently of its neighbours and of the vector width; the tail of a block runs the same code under a
// mask. Not here: functions through f64 (scalar_ops.cc), the polynomials (vector_math-inl.h), loops that read and
// write halves (half_block_ops.cc).
#include "kernels/pointwise/block_ops.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/block_ops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/block_functions-inl.h"
#include "kernels/pointwise/partial_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A source of a block: a stream of elements, or one splatted value that is loaded once.
template <class D, bool kSplat>
class Source {
 public:
  HWY_INLINE explicit Source(const void* from)
      : at_(static_cast<const hn::TFromD<D>*>(from)), splat_(kSplat ? hn::LoadU(D(), at_) : hn::Zero(D())) {}
  HWY_INLINE hn::VFromD<D> load(D d, size_t i) const { return kSplat ? splat_ : hn::LoadU(d, at_ + i); }
  HWY_INLINE hn::VFromD<D> load_tail(D d, size_t i, size_t count) const {
    return kSplat ? splat_ : load_first(d, at_ + i, count);
  }

 private:
  const hn::TFromD<D>* at_;
  hn::VFromD<D> splat_;
};

// Op::apply(d, vectors...) over a block; D tags the sources, R the result.
template <class Op, class D, class R, class... Sources>
HWY_INLINE void each_vector(const BlockCall& call, const Sources&... sources) {
  const D d;
  const R r;
  auto* to = static_cast<hn::TFromD<R>*>(call.result);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= call.count; i += 2 * lanes) {
    const auto first = Op::apply(d, sources.load(d, i)...);
    const auto second = Op::apply(d, sources.load(d, i + lanes)...);
    hn::StoreU(first, r, to + i);
    hn::StoreU(second, r, to + i + lanes);
  }
  for (; i + lanes <= call.count; i += lanes) hn::StoreU(Op::apply(d, sources.load(d, i)...), r, to + i);
  if (size_t rest = call.count - i; rest != 0)
    store_first(r, Op::apply(d, sources.load_tail(d, i, rest)...), to + i, rest);
}

// A step whose sources are all splats is uniform and reads them as streams.
template <class Op, class D, class R = D>
void unary(const BlockCall& call) {
  if (call.stride_a == 0) return each_vector<Op, D, R>(call, Source<D, true>(call.a));
  each_vector<Op, D, R>(call, Source<D, false>(call.a));
}

template <class Op, class D, class R = D>
void binary(const BlockCall& call) {
  const Source<D, false> a(call.a), b(call.b);
  if (call.stride_a == 0) return each_vector<Op, D, R>(call, Source<D, true>(call.a), b);
  if (call.stride_b == 0) return each_vector<Op, D, R>(call, a, Source<D, true>(call.b));
  each_vector<Op, D, R>(call, a, b);
}

template <class Op, class D>
void ternary(const BlockCall& call) {
  using Splat = Source<D, true>;  // made where it is one: it reads a whole vector
  const Source<D, false> a(call.a), b(call.b), c(call.c);
  switch (call.stride_a * 4 + call.stride_b * 2 + call.stride_c) {
    case 1:
      return each_vector<Op, D, D>(call, Splat(call.a), Splat(call.b), c);
    case 2:
      return each_vector<Op, D, D>(call, Splat(call.a), b, Splat(call.c));
    case 3:
      return each_vector<Op, D, D>(call, Splat(call.a), b, c);
    case 4:
      return each_vector<Op, D, D>(call, a, Splat(call.b), Splat(call.c));
    case 5:
      return each_vector<Op, D, D>(call, a, Splat(call.b), c);
    case 6:
      return each_vector<Op, D, D>(call, a, b, Splat(call.c));
    default:
      return each_vector<Op, D, D>(call, a, b, c);
  }
}

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
  const Source<F, false> a(call.a);
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
#define IPU_SET_FUNCTION(name, ...) set(OpCode::k##name##F, unary<name, F>);
  IPU_VECTOR_FUNCTIONS(IPU_SET_FUNCTION)
#undef IPU_SET_FUNCTION
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

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_block_ops);
const BlockOps& block_ops() {
  active_isa();
  static const BlockOps ops = [] {
    BlockOps all = HWY_DYNAMIC_DISPATCH(target_block_ops)();
    all.halves = half_block_ops();
    return all;
  }();
  return ops;
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
