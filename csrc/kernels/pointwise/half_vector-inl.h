// Vectors of f32 from and to f16 memory. Included once per target inside foreach_target; IPU_VECTOR_HALVES is 0 on
// targets without the instructions, where loops over elements do the same.
#if defined(IPU_KERNELS_HALF_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef IPU_KERNELS_HALF_VECTOR_INL_H_
#undef IPU_KERNELS_HALF_VECTOR_INL_H_
#else
#define IPU_KERNELS_HALF_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef IPU_VECTOR_HALVES
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values
#define IPU_VECTOR_HALVES 1
#else
#define IPU_VECTOR_HALVES 0
#endif

#if IPU_VECTOR_HALVES
HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::VFromD<D> load_halves(D d, const uint16_t* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}
template <class D>
HWY_INLINE void store_halves(D, hn::VFromD<D> value, uint16_t* to) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(to));
}
// To the nearest f16 and back.
template <class D>
HWY_INLINE hn::VFromD<D> round_to_half(D d, hn::VFromD<D> value) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::DemoteTo(half, value));
}

// The first `count` elements of a vector (all, if there are so many).
template <class D>
HWY_INLINE hn::VFromD<D> load_first_halves(D d, const uint16_t* from, int64_t count) {
  const hn::Rebind<hwy::float16_t, D> half;
  const hn::Rebind<uint16_t, D> bits;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
#if HWY_TARGET <= HWY_AVX3
  const auto first = hn::FirstN(bits, static_cast<size_t>(std::min(kLanes, count)));
  return hn::PromoteTo(d, hn::BitCast(half, hn::MaskedLoad(first, bits, from)));
#else
  HWY_ALIGN uint16_t values[kLanes] = {};
  std::memcpy(values, from, static_cast<size_t>(std::min(kLanes, count)) * sizeof(uint16_t));
  return hn::PromoteTo(d, hn::BitCast(half, hn::Load(bits, values)));
#endif
}
template <class D>
HWY_INLINE void store_first_halves(D d, hn::VFromD<D> value, uint16_t* to, int64_t count) {
  const hn::Rebind<hwy::float16_t, D> half;
  const hn::Rebind<uint16_t, D> bits;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if (count >= kLanes) return store_halves(d, value, to);
  HWY_ALIGN uint16_t values[kLanes];
  hn::Store(hn::BitCast(bits, hn::DemoteTo(half, value)), bits, values);
  std::memcpy(to, values, static_cast<size_t>(std::max<int64_t>(0, count)) * sizeof(uint16_t));
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
