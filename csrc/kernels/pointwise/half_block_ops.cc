// Highway bodies of HalfBlockOps, compiled once per instruction set: one function for an opcode and an end, which
// chooses the loop for the forms of its sources. The same functions of vectors as in block_ops.cc, so the same bits
// as widening, computing and rounding one after the other.
#include "kernels/isa.h"
#include "kernels/pointwise/block_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/half_block_ops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pointwise/block_functions-inl.h"
#include "kernels/pointwise/half_vector-inl.h"
#include "kernels/pointwise/partial_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if IPU_VECTOR_HALVES

using V = hn::VFromD<F>;
constexpr size_t kLanes = hn::MaxLanes(F());

// Sources: f32 in memory, one value for all elements, f16 in memory.
struct Wide {
  const float* at;
  HWY_INLINE V load(size_t i) const { return hn::LoadU(F(), at + i); }
  HWY_INLINE V load_tail(size_t i, size_t count) const { return load_first(F(), at + i, count); }
};
struct Splat {
  V value;
  HWY_INLINE V load(size_t) const { return value; }
  HWY_INLINE V load_tail(size_t, size_t) const { return value; }
};
struct Halves {
  const uint16_t* at;
  HWY_INLINE V load(size_t i) const { return load_halves(F(), at + i); }
  HWY_INLINE V load_tail(size_t i, size_t count) const {
    return load_first_halves(F(), at + i, static_cast<int64_t>(count));
  }
};

// Ends: f32 as computed, f32 rounded to f16, f16.
struct StoreWide {
  float* to;
  HWY_INLINE void store(V v, size_t i) const { hn::StoreU(v, F(), to + i); }
  HWY_INLINE void store_tail(V v, size_t i, size_t count) const { store_first(F(), v, to + i, count); }
};
struct StoreRounded {
  float* to;
  HWY_INLINE void store(V v, size_t i) const { hn::StoreU(round_to_half(F(), v), F(), to + i); }
  HWY_INLINE void store_tail(V v, size_t i, size_t count) const {
    store_first(F(), round_to_half(F(), v), to + i, count);
  }
};
struct StoreHalves {
  uint16_t* to;
  HWY_INLINE void store(V v, size_t i) const { store_halves(F(), v, to + i); }
  HWY_INLINE void store_tail(V v, size_t i, size_t count) const {
    store_first_halves(F(), v, to + i, static_cast<int64_t>(count));
  }
};

template <class Op, class End, class... Sources>
HWY_INLINE void each_vector(size_t count, const End& end, const Sources&... sources) {
  const F d;
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const V first = Op::apply(d, sources.load(i)...);
    const V second = Op::apply(d, sources.load(i + kLanes)...);
    end.store(first, i);
    end.store(second, i + kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) end.store(Op::apply(d, sources.load(i)...), i);
  if (const size_t rest = count - i; rest != 0)
    end.store_tail(Op::apply(d, sources.load_tail(i, rest)...), i, rest);
}

// f(source) for the form that a source has.
template <class Function>
HWY_INLINE void with_source(const void* from, bool is_halves, size_t stride, Function f) {
  if (is_halves) return f(Halves{static_cast<const uint16_t*>(from)});
  if (stride == 0) return f(Splat{hn::LoadU(F(), static_cast<const float*>(from))});
  f(Wide{static_cast<const float*>(from)});
}

template <class End>
End end_of(const BlockCall& call) {
  return {static_cast<decltype(End::to)>(call.result)};
}
template <class Op, class End>
void unary(const BlockCall& call) {
  with_source(call.a, (call.halves & 1) != 0, call.stride_a,
              [&](auto a) HWY_ATTR { each_vector<Op>(call.count, end_of<End>(call), a); });
}
template <class Op, class End>
void binary(const BlockCall& call) {
  with_source(call.a, (call.halves & 1) != 0, call.stride_a, [&](auto a) HWY_ATTR {
    with_source(call.b, (call.halves & 2) != 0, call.stride_b,
                [&](auto b) HWY_ATTR { each_vector<Op>(call.count, end_of<End>(call), a, b); });
  });
}

template <class Op, class End>
void ternary(const BlockCall& call) {
  with_source(call.a, (call.halves & 1) != 0, call.stride_a, [&](auto a) HWY_ATTR {
    with_source(call.b, (call.halves & 2) != 0, call.stride_b, [&](auto b) HWY_ATTR {
      with_source(call.c, (call.halves & 4) != 0, call.stride_c,
                  [&](auto c) HWY_ATTR { each_vector<Op>(call.count, end_of<End>(call), a, b, c); });
    });
  });
}
// a * b + c and c - a * b, each step rounded to f32 as the ops are.
struct MulAdd {
  template <class D, class Vector>
  static HWY_INLINE Vector apply(D, Vector a, Vector b, Vector c) {
    return hn::Add(hn::Mul(a, b), c);
  }
};
struct MinusMul {
  template <class D, class Vector>
  static HWY_INLINE Vector apply(D, Vector a, Vector b, Vector c) {
    return hn::Sub(c, hn::Mul(a, b));
  }
};
template <class Op>
constexpr HalfForms forms_of_pair() {
  return {ternary<Op, StoreWide>, ternary<Op, StoreRounded>, ternary<Op, StoreHalves>};
}

HalfBlockOps make_half_block_ops() {
  HalfBlockOps all;
  all.mul_add = forms_of_pair<MulAdd>();
  all.minus_mul = forms_of_pair<MinusMul>();
  auto& ops = all.single;
  const auto set = [&](OpCode code, BlockFunction wide, BlockFunction rounded, BlockFunction stored) {
    ops[static_cast<size_t>(code)] = {wide, rounded, stored};
  };
#define IPU_HALVES(code, loop, Op) \
  set(OpCode::code, loop<Op, StoreWide>, loop<Op, StoreRounded>, loop<Op, StoreHalves>)
  IPU_HALVES(kAddF, binary, Add);
  IPU_HALVES(kSubF, binary, Sub);
  IPU_HALVES(kMulF, binary, Mul);
  IPU_HALVES(kDivF, binary, Div);
  IPU_HALVES(kMinF, binary, MinNan);
  IPU_HALVES(kMaxF, binary, MaxNan);
  IPU_HALVES(kNegF, unary, Neg);
  IPU_HALVES(kAbsF, unary, Abs);
  IPU_HALVES(kSqrtF, unary, Sqrt);
  IPU_HALVES(kRsqrtF, unary, Rsqrt);
  IPU_HALVES(kReciprocalF, unary, Reciprocal);
  IPU_HALVES(kExpF, unary, Exp);
  IPU_HALVES(kLogF, unary, Log);
  IPU_HALVES(kTanhF, unary, Tanh);
  IPU_HALVES(kErfF, unary, Erf);
  IPU_HALVES(kSigmoidF, unary, Sigmoid);
  IPU_HALVES(kGeluF, unary, Gelu);
  IPU_HALVES(kGeluSlopeF, unary, GeluSlope);
#undef IPU_HALVES
  return all;
}

#else

HalfBlockOps make_half_block_ops() { return {}; }

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(make_half_block_ops);
HalfBlockOps half_block_ops() { return HWY_DYNAMIC_DISPATCH(make_half_block_ops)(); }
}  // namespace ipu::kernels
#endif
