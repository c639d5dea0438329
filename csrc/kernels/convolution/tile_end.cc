// See tile_end.h.
#include "kernels/convolution/tile_end.h"

#include "kernels/isa.h"  // before Highway: which targets are compiled

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution/tile_end.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/pointwise/partial_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loops over registers: left rolled, as -O2 does, their arrays would live in memory.
#undef IPU_UNROLL
#define IPU_UNROLL _Pragma("GCC unroll 16")

enum class Sums : uint8_t { kInTile, kBeside, kInBoth };

struct EndArguments {
  float* c;
  int64_t ldc, rows;
  const TileEnd& end;
  const LastPiece& last;
};

// kVectors vectors of columns from j on, of all rows; of the last vector `count` columns. Whole rows of lines as far as
// registers go: memory is written in order. Products and sums one by one, as the elementwise ops that this stands
// for: no fused multiply-add. What is absent is 1 and -0, which change nothing.
template <Activation kActivation, bool kAdds, Sums kSums, int kVectors>
HWY_INLINE void end_columns(const EndArguments& t, int64_t j, size_t count) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const auto zero = hn::Zero(d);
  auto columns_of = [count](int v) HWY_ATTR { return v + 1 < kVectors ? kLanes : count; };
  V scale[kVectors], bias[kVectors];
  IPU_UNROLL for (int v = 0; v < kVectors; ++v) {
    const int64_t at = j + v * static_cast<int64_t>(kLanes);
    scale[v] = t.end.scale == nullptr ? hn::Set(d, 1.0f) : load_up_to(d, t.end.scale + at, columns_of(v));
    bias[v] = t.end.bias == nullptr ? hn::Set(d, -0.0f) : load_up_to(d, t.end.bias + at, columns_of(v));
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    float* const c = t.c + i * t.ldc + j;
    const float* const sums = kSums == Sums::kInTile ? c : t.last.sums + i * t.last.pitch + j;
    IPU_UNROLL for (int v = 0; v < kVectors; ++v) {
      const int64_t at = v * static_cast<int64_t>(kLanes);
      V x = load_up_to(d, sums + at, columns_of(v));
      if constexpr (kSums == Sums::kInBoth) x = hn::Add(load_up_to(d, c + at, columns_of(v)), x);
      x = hn::Add(hn::Mul(x, scale[v]), bias[v]);
      if constexpr (kAdds) x = hn::Add(x, load_up_to(d, t.end.addend + i * t.ldc + j + at, columns_of(v)));
      // NaN must pass through relu as in torch: x stays unless x <= 0.
      if constexpr (kActivation == Activation::kRelu) x = hn::IfThenElse(hn::Le(x, zero), zero, x);
      if constexpr (kActivation == Activation::kGelu) x = gelu(d, x);
      store_up_to(d, x, c + at, columns_of(v));
    }
  }
}

template <Activation kActivation, bool kAdds, Sums kSums>
void end_all_columns(const EndArguments& t, int64_t columns) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  constexpr int kVectors = kLanes > 1 ? 4 : 1;
  constexpr auto kWhole = static_cast<size_t>(kLanes);
  int64_t j = 0;
  for (; j + kVectors * kLanes <= columns; j += kVectors * kLanes)
    end_columns<kActivation, kAdds, kSums, kVectors>(t, j, kWhole);
  for (; j + kLanes <= columns; j += kLanes) end_columns<kActivation, kAdds, kSums, 1>(t, j, kWhole);
  if (j < columns) end_columns<kActivation, kAdds, kSums, 1>(t, j, static_cast<size_t>(columns - j));
}

template <Activation kActivation, bool kAdds>
void end_sums(const EndArguments& t, int64_t columns) {
  if (t.last.sums == nullptr) return end_all_columns<kActivation, kAdds, Sums::kInTile>(t, columns);
  if (t.last.is_only) return end_all_columns<kActivation, kAdds, Sums::kBeside>(t, columns);
  end_all_columns<kActivation, kAdds, Sums::kInBoth>(t, columns);
}

template <Activation kActivation>
void end_activated(const EndArguments& t, int64_t columns) {
  if (t.end.addend != nullptr) return end_sums<kActivation, true>(t, columns);
  end_sums<kActivation, false>(t, columns);
}

void End(float* c, int64_t ldc, int64_t rows, int64_t columns, const TileEnd& end, const LastPiece& last) {
  const EndArguments t{c, ldc, rows, end, last};
  switch (end.activation) {
    case Activation::kNone:
      return end_activated<Activation::kNone>(t, columns);
    case Activation::kRelu:
      return end_activated<Activation::kRelu>(t, columns);
    case Activation::kGelu:
      return end_activated<Activation::kGelu>(t, columns);
  }
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(End);

void end_tile(float* c, int64_t ldc, int64_t rows, int64_t columns, const TileEnd& end,
              const LastPiece& last) {
  if (end.is_nothing() && last.sums == nullptr) return;
  HWY_DYNAMIC_DISPATCH(End)(c, ldc, rows, columns, end, last);
}

}  // namespace ipu::kernels
#endif
