// Highway code of vector_tiles.h, compiled once per instruction set. Targets without fused multiply-add run
// the scalar loops below on std::fma: slow there, but the bits stay.
#include "kernels/tile_gemm/vector_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_gemm/vector_tiles.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/pointwise/partial_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef IPU_VECTOR_TILES
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values
#define IPU_VECTOR_TILES 1
#else
#define IPU_VECTOR_TILES 0
#endif

[[maybe_unused]] HWY_INLINE float widened(float value) { return value; }
[[maybe_unused]] HWY_INLINE float widened(Half bits) {
  _Float16 value;  // what the compiler calls the stored bits
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}

#if IPU_VECTOR_TILES

// Loops over registers: left rolled, as -O2 does, their arrays would live in memory.
#undef IPU_UNROLL
#define IPU_UNROLL _Pragma("GCC unroll 16")

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kVectors = kLanes >= 16 ? 4 : 2;  // columns of a register block, in vectors
constexpr int kRows = 6;                        // rows of a register block
constexpr int kNarrowRows = 12;                 // blocks of one vector need more rows to hide the latency

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
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < W; ++w) {
      const float* at = t.c + i * t.ldc + w * kLanes;
      if (!t.accumulate)
        acc[i][w] = hn::Zero(d);
      else if (kMasked && w == W - 1)
        acc[i][w] = hn::MaskedLoad(mask, d, at);
      else
        acc[i][w] = hn::LoadU(d, at);
    }
  }
  for (int64_t pair = 0; pair < t.count; ++pair) {
    const float* a = t.a + t.a_offsets[pair] / sizeof(float);
    const float* b = t.b + t.b_offsets[pair] / sizeof(float);
    for (int64_t p = 0; p < t.depth; ++p) {
      V row[W];
      IPU_UNROLL for (int w = 0; w < W; ++w) row[w] =
          kMasked && w == W - 1 ? hn::MaskedLoad(mask, d, b + w * kLanes) : hn::LoadU(d, b + w * kLanes);
      IPU_UNROLL for (int i = 0; i < R; ++i) {
        const V scalar = hn::Set(d, a[i * t.a_row]);
        IPU_UNROLL for (int w = 0; w < W; ++w) acc[i][w] = hn::MulAdd(scalar, row[w], acc[i][w]);
      }
      a += t.a_depth;
      b += t.ldb;
    }
  }
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < W; ++w) {
      float* at = t.c + i * t.ldc + w * kLanes;
      if (kMasked && w == W - 1)
        hn::BlendedStore(acc[i][w], mask, d, at);
      else
        hn::StoreU(acc[i][w], d, at);
    }
  }
}

// The last rows of a strip, fewer than R, as one block: two small blocks would run at the latency twice.
template <int R, int W, bool kMasked>
void last_rows(const TileArguments& t, int64_t rows, int tail) {
  if constexpr (R > 0) {
    if (rows == R) return register_block<R, W, kMasked>(t, tail);
    last_rows<R - 1, W, kMasked>(t, rows, tail);
  }
}

template <int W, bool kMasked>
void column_strip(TileArguments t, int64_t rows, int tail) {
  constexpr int kStep = W == 1 ? kNarrowRows : kRows;
  for (; rows >= kStep; rows -= kStep) {
    register_block<kStep, W, kMasked>(t, tail);
    t.a += kStep * t.a_row;
    t.c += kStep * t.ldc;
  }
  last_rows<kStep - 1, W, kMasked>(t, rows, tail);
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

// c[j] (+)= Σ_p a[p] · b[p][j]: rows of b are streamed K at a time while c stays in the first cache.
template <int K>
void add_rows(const float* a, int64_t a_step, const float* b, int64_t ldb, int64_t columns, float* c,
              bool first) {
  const D d;
  V scalar[K];
  IPU_UNROLL for (int q = 0; q < K; ++q) scalar[q] = hn::Set(d, a[q * a_step]);
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    V sum = first ? hn::Zero(d) : hn::LoadU(d, c + j);
    IPU_UNROLL for (int q = 0; q < K; ++q) sum = hn::MulAdd(scalar[q], hn::LoadU(d, b + q * ldb + j), sum);
    hn::StoreU(sum, d, c + j);
  }
  if (j == columns) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns - j));
  V sum = first ? hn::Zero(d) : hn::MaskedLoad(mask, d, c + j);
  IPU_UNROLL for (int q = 0; q < K; ++q) sum =
      hn::MulAdd(scalar[q], hn::MaskedLoad(mask, d, b + q * ldb + j), sum);
  hn::BlendedStore(sum, mask, d, c + j);
}

void Row(const float* a, int64_t a_step, const float* b, int64_t ldb, int64_t depth, int64_t columns,
         float* c) {
  int64_t p = 0;
  for (; p + 8 <= depth; p += 8) add_rows<8>(a + p * a_step, a_step, b + p * ldb, ldb, columns, c, p == 0);
  for (; p < depth; ++p) add_rows<1>(a + p * a_step, a_step, b + p * ldb, ldb, columns, c, p == 0);
}

// Groups of 16 logical lanes, whatever the width of a register.
static_assert(kLanes <= 16);
constexpr int kGroup = 16 / kLanes;

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

// Four dot products finished at once: a 4×4 transposition, then (0 + 2) + (1 + 3).
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> finish_four(const V (*acc)[kGroup]) {
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<double, 2> d2;
  const auto x0 = fold_to_four(acc[0]), x1 = fold_to_four(acc[1]);
  const auto x2 = fold_to_four(acc[2]), x3 = fold_to_four(acc[3]);
  const auto lo01 = hn::BitCast(d2, hn::InterleaveLower(d4, x0, x1)),
             hi01 = hn::BitCast(d2, hn::InterleaveUpper(d4, x0, x1));
  const auto lo23 = hn::BitCast(d2, hn::InterleaveLower(d4, x2, x3)),
             hi23 = hn::BitCast(d2, hn::InterleaveUpper(d4, x2, x3));
  const auto lane0 = hn::BitCast(d4, hn::InterleaveLower(d2, lo01, lo23));
  const auto lane1 = hn::BitCast(d4, hn::InterleaveUpper(d2, lo01, lo23));
  const auto lane2 = hn::BitCast(d4, hn::InterleaveLower(d2, hi01, hi23));
  const auto lane3 = hn::BitCast(d4, hn::InterleaveUpper(d2, hi01, hi23));
  return hn::Add(hn::Add(lane0, lane2), hn::Add(lane1, lane3));
}

// Whole vectors of B and their first `count` elements, the others zero; f16 is widened.
HWY_INLINE V load(const float* from) { return hn::LoadU(D(), from); }
HWY_INLINE V load(const Half* from) {
  return hn::PromoteTo(
      D(), hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE V load_first(const float* from, int64_t count) {
  return hn::MaskedLoad(hn::FirstN(D(), static_cast<size_t>(std::min<int64_t>(kLanes, count))), D(), from);
}
HWY_INLINE V load_first(const Half* from, int64_t count) {
  const hn::Rebind<hwy::float16_t, D> half;
  const hn::Rebind<uint16_t, D> bits;
#if HWY_TARGET <= HWY_AVX3
  const auto first = hn::FirstN(bits, static_cast<size_t>(std::min<int64_t>(kLanes, count)));
  return hn::PromoteTo(D(), hn::BitCast(half, hn::MaskedLoad(first, bits, from)));
#else
  alignas(64) Half values[kLanes] = {};
  std::memcpy(values, from, static_cast<size_t>(std::min<int64_t>(kLanes, count)) * sizeof(Half));
  return hn::PromoteTo(D(), hn::BitCast(half, hn::Load(bits, values)));
#endif
}

// R rows against C columns (rows of B, `ldb` apart); the last `C - columns` repeat the last one and are not
// stored. Lanes that do not fit the registers all at once are summed in two passes.
template <int R, int C, class T>
void dot_block(const DotShape& s, const float* a, const T* b, float* c, int columns) {
  const D d;
  constexpr int kPasses = kGroup > 1 && R * C > 6 ? 2 : 1, kOfPass = kGroup / kPasses;
  const T* start_of[C];
  IPU_UNROLL for (int j = 0; j < C; ++j) start_of[j] = b + std::min(j, columns - 1) * s.ldb;
  V sums[R][C][kGroup];
  IPU_UNROLL for (int first = 0; first < kGroup; first += kOfPass) {
    V acc[R][C][kOfPass];
    IPU_UNROLL for (int i = 0; i < R; ++i) IPU_UNROLL for (int j = 0; j < C; ++j)
        IPU_UNROLL for (int g = 0; g < kOfPass; ++g) acc[i][j][g] = hn::Zero(d);
    int64_t at = 0;
    for (int64_t start = 0; start < s.depth; start += s.segment, at += s.segment_stride) {
      const int64_t length = std::min(s.segment, s.depth - start);
      const float* ap = a + start + first * kLanes;
      // What is read after this run: the next segment, or the next columns.
      const int64_t ahead = start + s.segment < s.depth ? s.segment_stride : C * s.ldb - at;
      int64_t p = 0;
      for (; p + 16 <= length; p += 16) IPU_UNROLL for (int g = 0; g < kOfPass; ++g) {
          V row[R];
          IPU_UNROLL for (int i = 0; i < R; ++i) row[i] = hn::LoadU(d, ap + i * s.lda + p + g * kLanes);
          IPU_UNROLL for (int j = 0; j < C; ++j) {
            const T* from = start_of[j] + at + p + (first + g) * kLanes;
            if (kPasses == 1 && g == 0) hwy::Prefetch(from + ahead);
            const V column = load(from);
            IPU_UNROLL for (int i = 0; i < R; ++i) acc[i][j][g] = hn::MulAdd(row[i], column, acc[i][j][g]);
          }
        }
      IPU_UNROLL for (int g = 0; g < kOfPass; ++g) {
        const int64_t rest = length - p - (first + g) * kLanes;
        if (rest <= 0) break;
        const auto mask = hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(kLanes, rest)));
        V row[R];
        IPU_UNROLL for (int i = 0; i < R; ++i) row[i] =
            hn::MaskedLoad(mask, d, ap + i * s.lda + p + g * kLanes);
        IPU_UNROLL for (int j = 0; j < C; ++j) {
          const V column = load_first(start_of[j] + at + p + (first + g) * kLanes, rest);
          IPU_UNROLL for (int i = 0; i < R; ++i) acc[i][j][g] = hn::MulAdd(row[i], column, acc[i][j][g]);
        }
      }
    }
    IPU_UNROLL for (int i = 0; i < R; ++i) IPU_UNROLL for (int j = 0; j < C; ++j)
        IPU_UNROLL for (int g = 0; g < kOfPass; ++g) sums[i][j][first + g] = acc[i][j][g];
  }
  const hn::FixedTag<float, 4> d4;
  IPU_UNROLL for (int i = 0; i < R; ++i) IPU_UNROLL for (int j = 0; j < C; j += 4) {
    const auto sum = finish_four(&sums[i][j]);
    float* const to = c + i * s.ldc + j;
    if (j + 4 <= columns) {
      hn::StoreU(sum, d4, to);
    } else {
      alignas(16) float values[4];
      hn::Store(sum, d4, values);
      for (int q = 0; j + q < columns; ++q) to[q] = values[q];
    }
  }
}

template <int R, int C, class T>
void dot_rows(const DotShape& s, const float* a, const T* b, float* c) {
  for (int64_t j = 0; j < s.columns; j += C)
    dot_block<R, C>(s, a, b + j * s.ldb, c + j, static_cast<int>(std::min<int64_t>(C, s.columns - j)));
}

template <class T>
void dot(const DotShape& s, const float* a, const T* b, float* c) {
  // As many accumulators as registers allow: columns are cheap to add while there are few rows.
  constexpr bool kWide = kLanes >= 16;
  int64_t i = 0;
  if constexpr (kWide) {
    for (; i + 4 <= s.rows; i += 4) dot_rows<4, 4>(s, a + i * s.lda, b, c + i * s.ldc);
    if (i + 2 <= s.rows) {
      dot_rows<2, 8>(s, a + i * s.lda, b, c + i * s.ldc);
      i += 2;
    }
  } else {
    for (; i + 3 <= s.rows; i += 3) dot_rows<3, 4>(s, a + i * s.lda, b, c + i * s.ldc);
    if (i + 2 <= s.rows) {
      dot_rows<2, 4>(s, a + i * s.lda, b, c + i * s.ldc);
      i += 2;
    }
  }
  // A packed B comes in short runs, so many of its columns are read at a time; plain rows stream best by
  // four.
  const bool in_runs = s.segment < s.depth;
  for (; i < s.rows; ++i) {
    if (in_runs && kWide)
      dot_rows<1, 16>(s, a + i * s.lda, b, c + i * s.ldc);
    else
      dot_rows<1, 4>(s, a + i * s.lda, b, c + i * s.ldc);
  }
}

void Dot(const DotShape& s, const float* a, const float* b, float* c) { dot(s, a, b, c); }
void HalfDot(const DotShape& s, const float* a, const Half* b, float* c) { dot(s, a, b, c); }

template <Activation kActivation>
HWY_INLINE V activated(V x) {
  const D d;
  if constexpr (kActivation == Activation::kGelu) return gelu(d, x);
  // NaN must pass through relu as in torch: keep x unless x <= 0.
  if constexpr (kActivation == Activation::kRelu)
    return hn::IfThenElse(hn::Le(x, hn::Zero(d)), hn::Zero(d), x);
  return x;
}
template <Activation kActivation>
void finish(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias, const float* addend) {
  const D d;
  const V zero = hn::Zero(d);
  auto one = [&](V x, V b, V more) HWY_ATTR {
    const V y = activated<kActivation>(bias != nullptr ? hn::Add(x, b) : x);
    return addend != nullptr ? hn::Add(y, more) : y;
  };
  for (int64_t i = 0; i < rows; ++i, c += ldc) {
    const float* more = addend != nullptr ? addend + i * ldc : nullptr;
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
      hn::StoreU(one(hn::LoadU(d, c + j), bias != nullptr ? hn::LoadU(d, bias + j) : zero,
                     more != nullptr ? hn::LoadU(d, more + j) : zero),
                 d, c + j);
    if (j == columns) continue;
    const auto mask = hn::FirstN(d, static_cast<size_t>(columns - j));
    hn::BlendedStore(
        one(hn::MaskedLoad(mask, d, c + j), bias != nullptr ? hn::MaskedLoad(mask, d, bias + j) : zero,
            more != nullptr ? hn::MaskedLoad(mask, d, more + j) : zero),
        mask, d, c + j);
  }
}

void Finish(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias, Activation activation,
            const float* addend) {
  switch (activation) {
    case Activation::kNone:
      return finish<Activation::kNone>(c, ldc, rows, columns, bias, addend);
    case Activation::kRelu:
      return finish<Activation::kRelu>(c, ldc, rows, columns, bias, addend);
    case Activation::kGelu:
      return finish<Activation::kGelu>(c, ldc, rows, columns, bias, addend);
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

using D4 = hn::FixedTag<float, 4>;
HWY_INLINE hn::Vec<D4> load_four(const float* from) { return hn::LoadU(D4(), from); }
HWY_INLINE hn::Vec<D4> load_four(const Half* from) {
  return hn::PromoteTo(
      D4(), hn::LoadU(hn::Rebind<hwy::float16_t, D4>(), reinterpret_cast<const hwy::float16_t*>(from)));
}

// Rows r and r + 4 share a register, so that no shuffle crosses its halves.
template <class T>
HWY_INLINE void transpose_8x8(const T* from, int64_t from_stride, float* to, int64_t to_stride) {
  const hn::FixedTag<float, 8> d;
  const hn::FixedTag<double, 4> dd;
  IPU_UNROLL for (int half = 0; half < 8; half += 4) {
    hn::Vec<decltype(d)> rows[4];
    IPU_UNROLL for (int r = 0; r < 4; ++r) rows[r] = hn::Combine(
        d, load_four(from + (r + 4) * from_stride + half), load_four(from + r * from_stride + half));
    const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, rows[0], rows[1]));
    const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, rows[0], rows[1]));
    const auto lo23 = hn::BitCast(dd, hn::InterleaveLower(d, rows[2], rows[3]));
    const auto hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, rows[2], rows[3]));
    float* const at = to + half * to_stride;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23)), d, at);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23)), d, at + to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23)), d, at + 2 * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23)), d, at + 3 * to_stride);
  }
}

// Rows of up to 4 elements, one after another, into as many columns.
void split_rows(const float* from, float* to, int64_t to_stride, int64_t rows, int64_t columns) {
  const D d;
  int64_t i = 0;
  V a, b, c, e;
  for (; i + kLanes <= rows; i += kLanes) {
    const float* at = from + i * columns;
    if (columns == 1) {
      a = hn::LoadU(d, at);
    } else if (columns == 2) {
      hn::LoadInterleaved2(d, at, a, b);
    } else if (columns == 3) {
      hn::LoadInterleaved3(d, at, a, b, c);
    } else {
      hn::LoadInterleaved4(d, at, a, b, c, e);
    }
    hn::StoreU(a, d, to + i);
    if (columns > 1) hn::StoreU(b, d, to + to_stride + i);
    if (columns > 2) hn::StoreU(c, d, to + 2 * to_stride + i);
    if (columns > 3) hn::StoreU(e, d, to + 3 * to_stride + i);
  }
  for (; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_stride + i] = from[i * columns + j];
}

// The way back: up to 4 rows become columns that lie one after another.
void join_rows(const float* from, int64_t from_stride, float* to, int64_t rows, int64_t columns) {
  const D d;
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    float* at = to + j * rows;
    const auto row = [&](int64_t i) { return hn::LoadU(d, from + i * from_stride + j); };
    if (rows == 1) {
      hn::StoreU(row(0), d, at);
    } else if (rows == 2) {
      hn::StoreInterleaved2(row(0), row(1), d, at);
    } else if (rows == 3) {
      hn::StoreInterleaved3(row(0), row(1), row(2), d, at);
    } else if (rows == 4) {
      hn::StoreInterleaved4(row(0), row(1), row(2), row(3), d, at);
    }
  }
  for (; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * rows + i] = from[i * from_stride + j];
}

template <class T>
HWY_INLINE void transpose(const T* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                          int64_t columns) {
  if constexpr (std::is_same_v<T, float>) {
    if (columns >= 1 && columns <= 4 && from_stride == columns)
      return split_rows(from, to, to_stride, rows, columns);
    if (rows >= 1 && rows <= 4 && to_stride == rows) return join_rows(from, from_stride, to, rows, columns);
  }
  const int64_t whole_rows = rows & ~int64_t{7}, whole_columns = columns & ~int64_t{7};
  // 16×16 blocks: whole cache lines on both sides, also where lines fall on few sets of the cache.
  const auto block = [&](int64_t i, int64_t j) HWY_ATTR {
    for (int64_t jj = j; jj < std::min(whole_columns, j + 16); jj += 8)
      for (int64_t ii = i; ii < std::min(whole_rows, i + 16); ii += 8)
        transpose_8x8(from + ii * from_stride + jj, from_stride, to + jj * to_stride + ii, to_stride);
  };
  // Along the longer side, so that 16 rows or columns at a time lie in pages that the processor knows.
  if (rows > columns) {
    for (int64_t j = 0; j < whole_columns; j += 16)
      for (int64_t i = 0; i < whole_rows; i += 16) block(i, j);
  } else {
    for (int64_t i = 0; i < whole_rows; i += 16)
      for (int64_t j = 0; j < whole_columns; j += 16) block(i, j);
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = widened(from[i * from_stride + j]);
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

void Row(const float* a, int64_t a_step, const float* b, int64_t ldb, int64_t depth, int64_t columns,
         float* c) {
  for (int64_t j = 0; j < columns; ++j) {
    float sum = 0.0f;
    for (int64_t p = 0; p < depth; ++p) sum = std::fma(a[p * a_step], b[p * ldb + j], sum);
    c[j] = sum;
  }
}

template <class T>
void dot(const DotShape& s, const float* a, const T* b, float* c) {
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.columns; ++j) {
      float chain[16] = {};
      for (int64_t start = 0, at = 0; start < s.depth; start += s.segment, at += s.segment_stride) {
        const int64_t length = std::min(s.segment, s.depth - start);
        for (int64_t p = 0; p < length; ++p)
          chain[p % 16] = std::fma(a[i * s.lda + start + p], widened(b[j * s.ldb + at + p]), chain[p % 16]);
      }
      for (int q = 0; q < 8; ++q) chain[q] += chain[q + 8];
      for (int q = 0; q < 4; ++q) chain[q] += chain[q + 4];
      c[i * s.ldc + j] = (chain[0] + chain[2]) + (chain[1] + chain[3]);
    }
}
void Dot(const DotShape& s, const float* a, const float* b, float* c) { dot(s, a, b, c); }
void HalfDot(const DotShape& s, const float* a, const Half* b, float* c) { dot(s, a, b, c); }

void Finish(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias, Activation activation,
            const float* addend) {
  for (int64_t i = 0; i < rows; ++i, c += ldc)
    for (int64_t j = 0; j < columns; ++j) {
      if (bias != nullptr) c[j] += bias[j];
      if (activation == Activation::kRelu && c[j] <= 0.0f) c[j] = 0.0f;
      if (activation == Activation::kGelu) {
        const hn::CappedTag<float, 1> d;
        c[j] = hn::GetLane(gelu(d, hn::Set(d, c[j])));
      }
      if (addend != nullptr) c[j] += addend[i * ldc + j];
    }
}

void Add(float* c, int64_t ldc, const float* t, int64_t ldt, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, c += ldc, t += ldt)
    for (int64_t j = 0; j < columns; ++j) c[j] += t[j];
}

template <class T>
void transpose(const T* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_stride + i] = widened(from[i * from_stride + j]);
}

#endif

void Transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  transpose(from, from_stride, to, to_stride, rows, columns);
}
void TransposeHalves(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                     int64_t columns) {
  transpose(from, from_stride, to, to_stride, rows, columns);
}

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {

HWY_EXPORT(Tile);
HWY_EXPORT(Row);
HWY_EXPORT(Dot);
HWY_EXPORT(HalfDot);
HWY_EXPORT(Finish);
HWY_EXPORT(Add);
HWY_EXPORT(Transpose);
HWY_EXPORT(TransposeHalves);

void portable_tile(const TileShape& shape, const float* a, const float* b, float* c) {
  constexpr uint64_t kNoOffset = 0;
  HWY_DYNAMIC_DISPATCH(Tile)(shape, a, b, c, &kNoOffset, &kNoOffset, 1);
}

void portable_batch_tile(const TileShape& shape, const float* a, const float* b, float* c,
                         const uint64_t* a_offsets, const uint64_t* b_offsets, int64_t count) {
  HWY_DYNAMIC_DISPATCH(Tile)(shape, a, b, c, a_offsets, b_offsets, count);
}

void row_product(const float* a, int64_t a_step, const float* b, int64_t ldb, int64_t depth, int64_t columns,
                 float* c) {
  HWY_DYNAMIC_DISPATCH(Row)(a, a_step, b, ldb, depth, columns, c);
}

void dot_tile(const DotShape& shape, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(Dot)(shape, a, b, c);
}

void dot_tile(const DotShape& shape, const float* a, const Half* b, float* c) {
  HWY_DYNAMIC_DISPATCH(HalfDot)(shape, a, b, c);
}

void finish_tile(float* c, int64_t ldc, int64_t rows, int64_t columns, const float* bias,
                 Activation activation, const float* addend) {
  if (bias == nullptr && activation == Activation::kNone && addend == nullptr) return;
  HWY_DYNAMIC_DISPATCH(Finish)(c, ldc, rows, columns, bias, activation, addend);
}

void add_tile(float* c, int64_t ldc, const float* t, int64_t ldt, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(Add)(c, ldc, t, ldt, rows, columns);
}

void transpose_tile(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t columns) {
  HWY_DYNAMIC_DISPATCH(Transpose)(from, from_stride, to, to_stride, rows, columns);
}
void transpose_tile(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                    int64_t columns) {
  HWY_DYNAMIC_DISPATCH(TransposeHalves)(from, from_stride, to, to_stride, rows, columns);
}

}  // namespace ipu::kernels
#endif
