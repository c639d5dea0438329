// Highway code of vector_tiles.h, compiled once per instruction set. Targets without fused multiply-add run
// the scalar loops below on std::fma: slow there, but the bits stay.
#include "kernels/tile_gemm/vector_tiles.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_gemm/vector_tiles.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef IPU_VECTOR_TILES
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values
#define IPU_VECTOR_TILES 1
#else
#define IPU_VECTOR_TILES 0
#endif

#if IPU_VECTOR_TILES

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kVectors = kLanes >= 16 ? 4 : 2;  // columns of a register block, in vectors
constexpr int kRows = kLanes >= 16 ? 6 : 4;     // rows of a register block

struct TileArguments {
  const float* a;
  int64_t a_row, a_depth;  // strides
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc, depth;
  bool accumulate;
  // Pairs of blocks that one chain runs through, in bytes from a and b.
  const uint64_t* a_offsets;
  const uint64_t* b_offsets;
  int64_t count;
};

// R rows × W vectors kept in registers over the whole depth. kMasked: the last vector has `tail` columns.
template <int R, int W, bool kMasked>
void register_block(const TileArguments& t, int tail) {
  const D d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(tail));
  V acc[R][W];
  for (int i = 0; i < R; ++i)
    for (int w = 0; w < W; ++w) {
      const float* at = t.c + i * t.ldc + w * kLanes;
      if (!t.accumulate)
        acc[i][w] = hn::Zero(d);
      else if (kMasked && w == W - 1)
        acc[i][w] = hn::MaskedLoad(mask, d, at);
      else
        acc[i][w] = hn::LoadU(d, at);
    }
  for (int64_t pair = 0; pair < t.count; ++pair) {
    const float* a = t.a + t.a_offsets[pair] / sizeof(float);
    const float* b = t.b + t.b_offsets[pair] / sizeof(float);
    for (int64_t p = 0; p < t.depth; ++p) {
      V row[W];
      for (int w = 0; w < W; ++w)
        row[w] =
            kMasked && w == W - 1 ? hn::MaskedLoad(mask, d, b + w * kLanes) : hn::LoadU(d, b + w * kLanes);
      for (int i = 0; i < R; ++i) {
        const V scalar = hn::Set(d, a[i * t.a_row]);
        for (int w = 0; w < W; ++w) acc[i][w] = hn::MulAdd(scalar, row[w], acc[i][w]);
      }
      a += t.a_depth;
      b += t.ldb;
    }
  }
  for (int i = 0; i < R; ++i)
    for (int w = 0; w < W; ++w) {
      float* at = t.c + i * t.ldc + w * kLanes;
      if (kMasked && w == W - 1)
        hn::BlendedStore(acc[i][w], mask, d, at);
      else
        hn::StoreU(acc[i][w], d, at);
    }
}

template <int W, bool kMasked>
void column_strip(TileArguments t, int64_t rows, int tail) {
  constexpr int kStep = W == 1 ? 12 : kRows;  // narrow strips need more rows to hide the latency
  for (; rows >= kStep; rows -= kStep) {
    register_block<kStep, W, kMasked>(t, tail);
    t.a += kStep * t.a_row;
    t.c += kStep * t.ldc;
  }
  auto rest = [&]<int R>() {
    register_block<R, W, kMasked>(t, tail);
    t.a += R * t.a_row;
    t.c += R * t.ldc;
    rows -= R;
  };
  if constexpr (kStep > 8)
    if (rows >= 8) rest.template operator()<8>();
  if (rows >= 4) rest.template operator()<4>();
  if (rows >= 2) rest.template operator()<2>();
  if (rows >= 1) rest.template operator()<1>();
}

void Tile(const TileShape& s, const float* a, const float* b, float* c, const uint64_t* a_offsets,
          const uint64_t* b_offsets, int64_t count) {
  TileArguments t{a,
                  s.transposed_a ? 1 : s.lda,
                  s.transposed_a ? s.lda : 1,
                  b,
                  s.ldb,
                  c,
                  s.ldc,
                  s.depth,
                  s.accumulate,
                  a_offsets,
                  b_offsets,
                  count};
  int64_t j = 0;
  auto advance = [&](int columns) {
    j += columns;
    t.b += columns;
    t.c += columns;
  };
  if (s.rows == 1)  // one row has no other reuse: wide strips read B in long runs
    for (; j + 8 * kLanes <= s.columns; advance(8 * kLanes)) register_block<1, 8, false>(t, 0);
  for (; j + kVectors * kLanes <= s.columns; advance(kVectors * kLanes))
    column_strip<kVectors, false>(t, s.rows, 0);
  if (kVectors > 2 && j + 2 * kLanes <= s.columns) {
    column_strip<2, false>(t, s.rows, 0);
    advance(2 * kLanes);
  }
  if (j + kLanes <= s.columns) {
    column_strip<1, false>(t, s.rows, 0);
    advance(kLanes);
  }
  if (j < s.columns) column_strip<1, true>(t, s.rows, static_cast<int>(s.columns - j));
}

// Groups of 16 logical lanes, whatever the width of a register.
constexpr int kGroup = 16 / kLanes > 0 ? 16 / kLanes : 1;
static_assert(kLanes <= 16);

// Sum of the 16 chains: lane j with j + 8, then + 4; the last four are summed by the caller.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> fold_to_four(const V* acc) {
  const hn::FixedTag<float, 8> d8;
  const hn::FixedTag<float, 4> d4;
#if HWY_TARGET == HWY_AVX2
  const auto eight = hn::Add(acc[0], acc[1]);
#else
  const auto eight = hn::Add(hn::LowerHalf(d8, acc[0]), hn::UpperHalf(d8, acc[0]));
#endif
  return hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
}

template <int R>
void dot_block(const DotShape& s, const float* a, const float* const* b, float* c, int columns) {
  const D d;
  V acc[R][4][kGroup];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < 4; ++j)
      for (int g = 0; g < kGroup; ++g) acc[i][j][g] = hn::Zero(d);
  int64_t from_segment = 0;
  for (int64_t start = 0; start < s.depth; start += s.segment, from_segment += s.segment_stride) {
    const int64_t length = std::min(s.segment, s.depth - start);
    const float* ap = a + start;
    int64_t p = 0;
    for (; p + 16 <= length; p += 16)
      for (int g = 0; g < kGroup; ++g) {
        V column[4];
        for (int j = 0; j < 4; ++j) column[j] = hn::LoadU(d, b[j] + from_segment + p + g * kLanes);
        for (int i = 0; i < R; ++i) {
          const V row = hn::LoadU(d, ap + i * s.lda + p + g * kLanes);
          for (int j = 0; j < 4; ++j) acc[i][j][g] = hn::MulAdd(row, column[j], acc[i][j][g]);
        }
      }
    for (int g = 0; g < kGroup && p + g * kLanes < length; ++g) {
      const auto mask =
          hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(kLanes, length - p - g * kLanes)));
      V column[4];
      for (int j = 0; j < 4; ++j) column[j] = hn::MaskedLoad(mask, d, b[j] + from_segment + p + g * kLanes);
      for (int i = 0; i < R; ++i) {
        const V row = hn::MaskedLoad(mask, d, ap + i * s.lda + p + g * kLanes);
        for (int j = 0; j < 4; ++j) acc[i][j][g] = hn::MulAdd(row, column[j], acc[i][j][g]);
      }
    }
  }
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<double, 2> d2;
  for (int i = 0; i < R; ++i) {
    const auto x0 = fold_to_four(acc[i][0]), x1 = fold_to_four(acc[i][1]);
    const auto x2 = fold_to_four(acc[i][2]), x3 = fold_to_four(acc[i][3]);
    // 4×4 transposition, then (0 + 2) + (1 + 3).
    const auto lo01 = hn::InterleaveLower(d4, x0, x1), hi01 = hn::InterleaveUpper(d4, x0, x1);
    const auto lo23 = hn::InterleaveLower(d4, x2, x3), hi23 = hn::InterleaveUpper(d4, x2, x3);
    auto pair = [&](auto x, auto y, bool upper) {
      const auto xd = hn::BitCast(d2, x), yd = hn::BitCast(d2, y);
      return hn::BitCast(d4, upper ? hn::InterleaveUpper(d2, xd, yd) : hn::InterleaveLower(d2, xd, yd));
    };
    const auto lane0 = pair(lo01, lo23, false), lane1 = pair(lo01, lo23, true);
    const auto lane2 = pair(hi01, hi23, false), lane3 = pair(hi01, hi23, true);
    const auto sum = hn::Add(hn::Add(lane0, lane2), hn::Add(lane1, lane3));
    if (columns == 4) {
      hn::StoreU(sum, d4, c + i * s.ldc);
    } else {
      alignas(16) float values[4];
      hn::Store(sum, d4, values);
      for (int j = 0; j < columns; ++j) c[i * s.ldc + j] = values[j];
    }
  }
}

void Dot(const DotShape& s, const float* a, const float* b, float* c) {
  constexpr int kDotRows = kLanes >= 16 ? 4 : 1;
  for (int64_t j = 0; j < s.columns; j += 4) {
    const int columns = static_cast<int>(std::min<int64_t>(4, s.columns - j));
    const float* rows_of_b[4];
    for (int q = 0; q < 4; ++q) rows_of_b[q] = b + (j + std::min(q, columns - 1)) * s.ldb;
    int64_t i = 0;
    for (; i + kDotRows <= s.rows; i += kDotRows)
      dot_block<kDotRows>(s, a + i * s.lda, rows_of_b, c + i * s.ldc + j, columns);
    if constexpr (kDotRows > 2)
      if (i + 2 <= s.rows) {
        dot_block<2>(s, a + i * s.lda, rows_of_b, c + i * s.ldc + j, columns);
        i += 2;
      }
    for (; i < s.rows; ++i) dot_block<1>(s, a + i * s.lda, rows_of_b, c + i * s.ldc + j, columns);
  }
}

void Finish(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias, Activation activation) {
  const D d;
  const V zero = hn::Zero(d);
  const bool relu = activation == Activation::kRelu;
  // NaN must pass through relu as in torch: keep x unless x <= 0.
  auto one = [&](V x, V b) HWY_ATTR {
    const V y = bias != nullptr ? hn::Add(x, b) : x;
    return relu ? hn::IfThenElse(hn::Le(y, zero), zero, y) : y;
  };
  for (int64_t i = 0; i < rows; ++i, c += ldc) {
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      hn::StoreU(one(hn::LoadU(d, c + j), bias != nullptr ? hn::LoadU(d, bias + j) : zero), d, c + j);
    if (j == columns) continue;
    const auto mask = hn::FirstN(d, static_cast<size_t>(columns - j));
    hn::BlendedStore(
        one(hn::MaskedLoad(mask, d, c + j), bias != nullptr ? hn::MaskedLoad(mask, d, bias + j) : zero), mask,
        d, c + j);
  }
}

void Add(float* c, int64_t ldc, const float* t, int64_t ldt, int64_t rows, int64_t columns) {
  const D d;
  for (int64_t i = 0; i < rows; ++i, c += ldc, t += ldt) {
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      hn::StoreU(hn::Add(hn::LoadU(d, c + j), hn::LoadU(d, t + j)), d, c + j);
    for (; j < columns; ++j) c[j] += t[j];
  }
}

void transpose_8x8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  const hn::FixedTag<float, 8> d;
  const hn::FixedTag<double, 4> dd;
  auto row = [&](int i) HWY_ATTR { return hn::LoadU(d, from + i * from_stride); };
  auto pairs = [&](auto x, auto y, bool upper) HWY_ATTR {
    const auto xd = hn::BitCast(dd, x), yd = hn::BitCast(dd, y);
    return hn::BitCast(d, upper ? hn::InterleaveUpper(dd, xd, yd) : hn::InterleaveLower(dd, xd, yd));
  };
  auto quads = [&](int first, auto out) HWY_ATTR {  // columns {0,1,2,3 | 4,5,6,7} of four rows
    const auto r0 = row(first), r1 = row(first + 1), r2 = row(first + 2), r3 = row(first + 3);
    const auto lo01 = hn::InterleaveLower(d, r0, r1), hi01 = hn::InterleaveUpper(d, r0, r1);
    const auto lo23 = hn::InterleaveLower(d, r2, r3), hi23 = hn::InterleaveUpper(d, r2, r3);
    out[0] = pairs(lo01, lo23, false);
    out[1] = pairs(lo01, lo23, true);
    out[2] = pairs(hi01, hi23, false);
    out[3] = pairs(hi01, hi23, true);
  };
  hn::Vec<hn::FixedTag<float, 8>> top[4], bottom[4];
  quads(0, top);
  quads(4, bottom);
  for (int q = 0; q < 4; ++q) {
    hn::StoreU(hn::ConcatLowerLower(d, bottom[q], top[q]), d, to + q * to_stride);
    hn::StoreU(hn::ConcatUpperUpper(d, bottom[q], top[q]), d, to + (q + 4) * to_stride);
  }
}

void Transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  const int64_t whole_rows = rows & ~int64_t{7}, whole_columns = columns & ~int64_t{7};
  for (int64_t i = 0; i < whole_rows; i += 8)
    for (int64_t j = 0; j < whole_columns; j += 8)
      transpose_8x8(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

#else  // scalar loops

void Tile(const TileShape& s, const float* a, const float* b, float* c, const uint64_t* a_offsets,
          const uint64_t* b_offsets, int64_t count) {
  const int64_t a_row = s.transposed_a ? 1 : s.lda, a_depth = s.transposed_a ? s.lda : 1;
  for (int64_t i = 0; i < s.rows; ++i) {
    float* row = c + i * s.ldc;
    if (!s.accumulate) std::fill(row, row + s.columns, 0.0f);
    for (int64_t pair = 0; pair < count; ++pair) {
      const float* a_pair = a + a_offsets[pair] / sizeof(float);
      const float* b_pair = b + b_offsets[pair] / sizeof(float);
      for (int64_t p = 0; p < s.depth; ++p) {
        const float x = a_pair[i * a_row + p * a_depth];
        for (int64_t j = 0; j < s.columns; ++j) row[j] = std::fma(x, b_pair[p * s.ldb + j], row[j]);
      }
    }
  }
}

void Dot(const DotShape& s, const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.columns; ++j) {
      float chain[16] = {};
      for (int64_t start = 0, at = 0; start < s.depth; start += s.segment, at += s.segment_stride) {
        const int64_t length = std::min(s.segment, s.depth - start);
        for (int64_t p = 0; p < length; ++p)
          chain[p % 16] = std::fma(a[i * s.lda + start + p], b[j * s.ldb + at + p], chain[p % 16]);
      }
      for (int q = 0; q < 8; ++q) chain[q] += chain[q + 8];
      for (int q = 0; q < 4; ++q) chain[q] += chain[q + 4];
      c[i * s.ldc + j] = (chain[0] + chain[2]) + (chain[1] + chain[3]);
    }
}

void Finish(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias, Activation activation) {
  for (int64_t i = 0; i < rows; ++i, c += ldc)
    for (int64_t j = 0; j < columns; ++j) {
      if (bias != nullptr) c[j] += bias[j];
      if (activation == Activation::kRelu && c[j] <= 0.0f) c[j] = 0.0f;
    }
}

void Add(float* c, int64_t ldc, const float* t, int64_t ldt, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, c += ldc, t += ldt)
    for (int64_t j = 0; j < columns; ++j) c[j] += t[j];
}

void Transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_stride + i] = from[i * from_stride + j];
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {

HWY_EXPORT(Tile);
HWY_EXPORT(Dot);
HWY_EXPORT(Finish);
HWY_EXPORT(Add);
HWY_EXPORT(Transpose);

void portable_tile(const TileShape& shape, const float* a, const float* b, float* c) {
  constexpr uint64_t kNoOffset = 0;
  HWY_DYNAMIC_DISPATCH(Tile)(shape, a, b, c, &kNoOffset, &kNoOffset, 1);
}

void portable_batch_tile(const TileShape& shape, const float* a, const float* b, float* c,
                         const uint64_t* a_offsets, const uint64_t* b_offsets, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Tile)(shape, a, b, c, a_offsets, b_offsets, count);
}

void dot_tile(const DotShape& shape, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(Dot)(shape, a, b, c);
}

void finish_tile(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias,
                 Activation activation) {
  if (bias == nullptr && activation == Activation::kNone) return;
  HWY_DYNAMIC_DISPATCH(Finish)(c, ldc, rows, columns, bias, activation);
}

void add_tile(float* c, int64_t ldc, const float* t, int64_t ldt, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(Add)(c, ldc, t, ldt, rows, columns);
}

void transpose_tile(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t columns) {
  HWY_DYNAMIC_DISPATCH(Transpose)(from, from_stride, to, to_stride, rows, columns);
}

}  // namespace ipu::kernels
#endif
