// The first few elements of a vector from and to memory that ends there. Included once per target inside
// foreach_target.
#if defined(IPU_KERNELS_PARTIAL_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef IPU_KERNELS_PARTIAL_VECTOR_INL_H_
#undef IPU_KERNELS_PARTIAL_VECTOR_INL_H_
#else
#define IPU_KERNELS_PARTIAL_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 32-bit elements; those from `count` on are zero.
template <class D>
HWY_INLINE hn::VFromD<D> load_first(D d, const hn::TFromD<D>* from, size_t count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);  // never faults for 32-bit lanes
#else
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, from, count * sizeof(buffer[0]));
  return hn::Load(d, buffer);
#endif
}

template <class D>
HWY_INLINE void store_first(D d, hn::VFromD<D> v, hn::TFromD<D>* to, size_t count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN hn::TFromD<D> buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, count * sizeof(buffer[0]));
#endif
}

// The same, quickly where the vector is whole.
template <class D>
HWY_INLINE hn::VFromD<D> load_up_to(D d, const hn::TFromD<D>* from, size_t count) {
  return count == hn::MaxLanes(d) ? hn::LoadU(d, from) : load_first(d, from, count);
}
template <class D>
HWY_INLINE void store_up_to(D d, hn::VFromD<D> v, hn::TFromD<D>* to, size_t count) {
  if (count == hn::MaxLanes(d))
    hn::StoreU(v, d, to);
  else
    store_first(d, v, to, count);
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
