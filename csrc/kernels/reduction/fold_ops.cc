// Highway bodies of fold_ops.h.
#include "kernels/reduction/fold_ops.h"

#include <array>
#include <bit>
#include <limits>

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction/fold_ops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Add {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};
struct Multiply {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct Largest {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Max(a, b);
  }
};
struct Smallest {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Min(a, b);
  }
};
// NaN wins, from either side.
struct LargestNan {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::IfThenElse(hn::Eq(b, b), hn::IfThenElse(hn::Lt(a, b), b, a), b);
  }
};
struct SmallestNan {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::IfThenElse(hn::Eq(b, b), hn::IfThenElse(hn::Lt(b, a), b, a), b);
  }
};

template <class T, class Op>
T two_of(T a, T b) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(Op::apply(hn::Set(d, a), hn::Set(d, b)));
}
template <class T, class Op>
uint32_t fold_two(uint32_t a, uint32_t b) {
  return std::bit_cast<uint32_t>(two_of<T, Op>(std::bit_cast<T>(a), std::bit_cast<T>(b)));
}

// kChains interleaved chains over from[0, count), count >= kChains, then a tree over the chains.
template <class T, class Op, size_t kChains>
T fold_chains(const T* from, size_t count) {
  const hn::CappedTag<T, kChains> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kVectors = kChains / kLanes;
  HWY_ALIGN T chain[kChains];
  {
    hn::VFromD<decltype(d)> sum[kVectors];
    for (size_t v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, from + v * kLanes);
    size_t i = kChains;
    for (; i + kChains <= count; i += kChains)
      for (size_t v = 0; v < kVectors; ++v) sum[v] = Op::apply(sum[v], hn::LoadU(d, from + i + v * kLanes));
    for (size_t v = 0; v < kVectors; ++v) hn::Store(sum[v], d, chain + v * kLanes);
    for (size_t k = 0; i < count; ++i, ++k) chain[k] = two_of<T, Op>(chain[k], from[i]);
  }
  size_t half = kChains / 2;
  for (; half >= kLanes; half /= 2)
    for (size_t k = 0; k < half; k += kLanes)
      hn::Store(Op::apply(hn::Load(d, chain + k), hn::Load(d, chain + half + k)), d, chain + k);
  for (; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k) chain[k] = two_of<T, Op>(chain[k], chain[half + k]);
  return chain[0];
}

template <class T, class Op>
uint32_t fold_row(const uint32_t* registers, size_t count) {
  const T* from = reinterpret_cast<const T*>(registers);
  T result;
  if (count >= 256) {
    result = fold_chains<T, Op, 64>(from, count);
  } else if (count >= 16) {
    result = fold_chains<T, Op, 16>(from, count);
  } else {
    result = from[0];
    for (size_t i = 1; i < count; ++i) result = two_of<T, Op>(result, from[i]);
  }
  return std::bit_cast<uint32_t>(result);
}

template <class T, class Op>
void fold_columns(const uint32_t* const* from, size_t rows, size_t columns, uint32_t* registers) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  T* out = reinterpret_cast<T*>(registers);
  auto row = [&](size_t r) { return reinterpret_cast<const T*>(from[r]); };
  size_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes) {
    auto a = hn::LoadU(d, row(0) + c), b = hn::LoadU(d, row(0) + c + lanes);
    auto e = hn::LoadU(d, row(0) + c + 2 * lanes), f = hn::LoadU(d, row(0) + c + 3 * lanes);
    for (size_t r = 1; r < rows; ++r) {
      a = Op::apply(a, hn::LoadU(d, row(r) + c));
      b = Op::apply(b, hn::LoadU(d, row(r) + c + lanes));
      e = Op::apply(e, hn::LoadU(d, row(r) + c + 2 * lanes));
      f = Op::apply(f, hn::LoadU(d, row(r) + c + 3 * lanes));
    }
    hn::StoreU(a, d, out + c);
    hn::StoreU(b, d, out + c + lanes);
    hn::StoreU(e, d, out + c + 2 * lanes);
    hn::StoreU(f, d, out + c + 3 * lanes);
  }
  for (; c + lanes <= columns; c += lanes) {
    auto a = hn::LoadU(d, row(0) + c);
    for (size_t r = 1; r < rows; ++r) a = Op::apply(a, hn::LoadU(d, row(r) + c));
    hn::StoreU(a, d, out + c);
  }
  for (; c < columns; ++c) {
    T a = row(0)[c];
    for (size_t r = 1; r < rows; ++r) a = two_of<T, Op>(a, row(r)[c]);
    out[c] = a;
  }
}

template <class T, class Op>
constexpr FoldOps make() {
  return {fold_row<T, Op>, fold_columns<T, Op>, fold_two<T, Op>};
}

const std::array<FoldOps, kFoldKinds>& target_fold_ops() {
  static const std::array<FoldOps, kFoldKinds> ops{make<float, Add>(),        make<float, Multiply>(),
                                                   make<float, LargestNan>(), make<float, SmallestNan>(),
                                                   make<uint32_t, Add>(),     make<uint32_t, Multiply>(),
                                                   make<int32_t, Largest>(),  make<int32_t, Smallest>(),
                                                   make<uint32_t, Largest>(), make<uint32_t, Smallest>()};
  return ops;
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_fold_ops);

const FoldOps& fold_ops(FoldKind kind) {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_fold_ops)()[static_cast<size_t>(kind)];
}

uint32_t fold_identity(FoldKind kind) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (kind) {
    case FoldKind::kSumF:
    case FoldKind::kSumI:
    case FoldKind::kMaxU:
      return 0;
    case FoldKind::kProdF:
      return std::bit_cast<uint32_t>(1.0f);
    case FoldKind::kMaxF:
      return std::bit_cast<uint32_t>(-kInfinity);
    case FoldKind::kMinF:
      return std::bit_cast<uint32_t>(kInfinity);
    case FoldKind::kProdI:
      return 1;
    case FoldKind::kMaxI:
      return 0x80000000u;
    case FoldKind::kMinI:
      return 0x7fffffffu;
    case FoldKind::kMinU:
      return 0xffffffffu;
  }
  return 0;
}

}  // namespace ipu::kernels
#endif
