// See pixel_tile.h. Targets without fused multiply-add run std::fma: the bits stay.
#include "kernels/convolution/pixel_tile.h"

#include <algorithm>
#include <cmath>

#include "kernels/isa.h"  // before Highway: which targets are compiled

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution/pixel_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values

#undef IPU_UNROLL
#define IPU_UNROLL _Pragma("GCC unroll 16")

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kVectors = kLanes >= 16 ? 4 : 2;  // columns of a register block, in vectors
constexpr int kRows = 6;                        // rows of one, at most
constexpr int64_t kLine = 16;                   // floats of a cache line
// A register block narrower than the weights reads parts of lines: pieces of them stay in the first cache.
constexpr int64_t kDepthAtATime = kVectors * kLanes < PixelTile::kColumns ? 64 : int64_t{1} << 40;

// R pixels × kVectors vectors kept in registers over `depth`; `lines` cache lines asked for at each step of it.
template <int R>
HWY_INLINE void register_block(const float* const* a, float* const* c, int64_t column, int64_t first,
                               int64_t depth, const float* b, const float* ahead, int64_t lines) {
  const D d;
  V acc[R][kVectors];
  const float* pixel[R];
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    pixel[i] = a[i] + first;
    IPU_UNROLL for (int w = 0; w < kVectors; ++w) acc[i][w] = hn::LoadU(d, c[i] + column + w * kLanes);
  }
  b += first * PixelTile::kColumns + column;
  for (int64_t p = 0; p < depth; ++p, b += PixelTile::kColumns) {
    V row[kVectors];
    IPU_UNROLL for (int w = 0; w < kVectors; ++w) row[w] = hn::LoadU(d, b + w * kLanes);
    for (int64_t line = 0; line < lines; ++line, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
    IPU_UNROLL for (int i = 0; i < R; ++i) {
      const V scalar = hn::Set(d, pixel[i][p]);
      IPU_UNROLL for (int w = 0; w < kVectors; ++w) acc[i][w] = hn::MulAdd(scalar, row[w], acc[i][w]);
    }
  }
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < kVectors; ++w) hn::StoreU(acc[i][w], d, c[i] + column + w * kLanes);
  }
}

template <int R>
void rows_of_block(int64_t rows, const float* const* a, float* const* c, int64_t column, int64_t first,
                   int64_t depth, const float* b, const float* ahead, int64_t lines) {
  if constexpr (R > 1)
    if (rows < R) return rows_of_block<R - 1>(rows, a, c, column, first, depth, b, ahead, lines);
  if (lines == 0) return register_block<R>(a, c, column, first, depth, b, ahead, 0);
  if (lines == 1) return register_block<R>(a, c, column, first, depth, b, ahead, 1);
  if (lines == 2) return register_block<R>(a, c, column, first, depth, b, ahead, 2);
  register_block<R>(a, c, column, first, depth, b, ahead, 4);
}

void Add(const PixelTile& t) {
  // Blocks of about as many rows.
  const int64_t blocks = (t.rows + kRows - 1) / kRows;
  for (int64_t first = 0; first < t.depth; first += kDepthAtATime) {
    const int64_t depth = std::min(kDepthAtATime, t.depth - first);
    // Lines ahead of this piece, over the steps of all blocks: 4, 2 or 1 a step until there are none left.
    const int64_t steps = blocks * (PixelTile::kColumns / (kVectors * kLanes));
    const int64_t at_a_step = steps == 1 ? 4 : steps < 4 ? 2 : 1;
    int64_t left = t.ahead == nullptr ? 0 : PixelTile::kColumns / kLine;  // of each step of depth
    const float* ahead = t.ahead == nullptr ? nullptr : t.ahead + first * PixelTile::kColumns;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = t.rows * block / blocks, rows = t.rows * (block + 1) / blocks - row;
      for (int64_t column = 0; column < PixelTile::kColumns; column += kVectors * kLanes) {
        const int64_t lines = std::min(left, at_a_step);
        rows_of_block<kRows>(rows, t.a + row, t.c + row, column, first, depth, t.b, ahead, lines);
        left -= lines;
        if (lines > 0) ahead += lines * depth * kLine;
      }
    }
  }
}

#else

void Add(const PixelTile& t) {
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t p = 0; p < t.depth; ++p)
      for (int64_t j = 0; j < PixelTile::kColumns; ++j)
        t.c[r][j] = std::fma(t.a[r][p], t.b[p * PixelTile::kColumns + j], t.c[r][j]);
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(Add);
void add_pixel_tile(const PixelTile& tile) { HWY_DYNAMIC_DISPATCH(Add)(tile); }
}  // namespace ipu::kernels
#endif
