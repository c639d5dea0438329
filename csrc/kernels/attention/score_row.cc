// Highway bodies of score_row.h.
#include "kernels/attention/score_row.h"

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/score_row.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ends(D, i, score) for the scores in vectors, and one by one at the end.
template <class Ends>
HWY_INLINE void each_score(float* scores, size_t count, Ends ends) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
    hn::StoreU(ends(d, i, hn::LoadU(d, scores + i)), d, scores + i);
  for (; i < count; ++i) hn::StoreU(ends(one, i, hn::LoadU(one, scores + i)), one, scores + i);
}

void end_row(float* scores, size_t count, const ScoreEnd& end) {
  if (end.scale != 1.0f)
    each_score(scores, count,
               [&](auto d, size_t, auto s) HWY_ATTR { return hn::Mul(s, hn::Set(d, end.scale)); });
  if (end.mask != nullptr)
    each_score(scores, count, [&](auto d, size_t i, auto s) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> wide;
      const hn::Rebind<uint8_t, decltype(d)> bytes;
      const auto is_false =
          hn::RebindMask(d, hn::Eq(hn::PromoteTo(wide, hn::LoadU(bytes, end.mask + i)), hn::Zero(wide)));
      const auto blocked = hn::Set(d, end.blocked);
      return end.keeps ? hn::IfThenElse(is_false, blocked, s) : hn::IfThenElse(is_false, s, blocked);
    });
  if (end.addend != nullptr)
    each_score(scores, count,
               [&](auto d, size_t i, auto s) HWY_ATTR { return hn::Add(s, hn::LoadU(d, end.addend + i)); });
}

ScoreRow target_score_row() { return end_row; }

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_score_row);
ScoreRow score_row() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_score_row)();
}
}  // namespace ipu::kernels
#endif
