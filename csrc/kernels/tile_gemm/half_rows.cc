// See half_rows.h. Transposed copies go through a small f32 tile, whose transposition vector_tiles.h has.
#include "kernels/tile_gemm/half_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/isa.h"
#include "kernels/tile_gemm/vector_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_gemm/half_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/pointwise/half_vector-inl.h"
#include "kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if IPU_VECTOR_HALVES
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

void widen_row(const Half* from, float* to, int64_t count) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(load_halves(d, from + i), d, to + i);
  if (i < count)
    hn::BlendedStore(load_first_halves(d, from + i, count - i), hn::FirstN(d, static_cast<size_t>(count - i)),
                     d, to + i);
}

void narrow_row(const float* from, Half* to, int64_t count) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_halves(d, hn::LoadU(d, from + i), to + i);
  if (i < count)
    store_first_halves(d, hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count - i)), d, from + i), to + i,
                       count - i);
}
#else
// _Float16 is what the compiler calls the stored bits; its conversions round to nearest even.
void widen_row(const Half* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    _Float16 value;
    std::memcpy(&value, from + i, sizeof value);
    to[i] = static_cast<float>(value);
  }
}

void narrow_row(const float* from, Half* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const _Float16 value = static_cast<_Float16>(from[i]);
    std::memcpy(to + i, &value, sizeof value);
  }
}
#endif

void WidenRows(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  if (from_stride == columns && to_stride == columns) return widen_row(from, to, rows * columns);
  for (int64_t i = 0; i < rows; ++i) widen_row(from + i * from_stride, to + i * to_stride, columns);
}

void NarrowRows(const float* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                int64_t columns) {
  if (from_stride == columns && to_stride == columns) return narrow_row(from, to, rows * columns);
  for (int64_t i = 0; i < rows; ++i) narrow_row(from + i * from_stride, to + i * to_stride, columns);
}

#if IPU_VECTOR_HALVES

#undef IPU_UNROLL
#define IPU_UNROLL _Pragma("GCC unroll 16")

constexpr bool kWide = kLanes >= 16;
constexpr int kVectors = kWide ? 4 : 2;

// Most rows whose sums stay in registers beside W vectors of columns.
constexpr int rows_for(int vectors) { return vectors == 4 ? 6 : vectors == 2 ? (kWide ? 10 : 5) : 10; }

// R rows × W vectors, kChains sums of each in registers over the whole depth.
template <int R, int W, int kChains>
void half_block(const HalfTile& t, const float* a, const Half* b, int64_t row, int64_t column) {
  const D d;
  V acc[kChains][R][W];
  float* const sums = t.sums + row * t.ld_sums + column;
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < W; ++w) {
      acc[0][i][w] = t.continues ? hn::LoadU(d, sums + i * t.ld_sums + w * kLanes) : hn::Zero(d);
      if constexpr (kChains == 2) acc[1][i][w] = hn::Zero(d);
    }
  }
  a += row * t.a_row;
  b += column;
  auto add = [&](V(&sum)[R][W], int64_t p) HWY_ATTR {
    V terms[W];
    IPU_UNROLL for (int w = 0; w < W; ++w) terms[w] = load_halves(d, b + p * t.ldb + w * kLanes);
    IPU_UNROLL for (int i = 0; i < R; ++i) {
      const V scalar = hn::Set(d, a[i * t.a_row + p * t.a_depth]);
      IPU_UNROLL for (int w = 0; w < W; ++w) sum[i][w] = hn::MulAdd(scalar, terms[w], sum[i][w]);
    }
  };
  int64_t p = 0;
  if constexpr (kChains == 2)
    for (; p + 2 <= t.depth; p += 2) {
      add(acc[0], p);
      add(acc[1], p + 1);
    }
  for (; p < t.depth; ++p) add(acc[0], p);
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < W; ++w) {
      if constexpr (kChains == 2) acc[0][i][w] = hn::Add(acc[0][i][w], acc[1][i][w]);
      if (t.result == nullptr) hn::StoreU(acc[0][i][w], d, sums + i * t.ld_sums + w * kLanes);
    }
  }
  if (t.result == nullptr) return;
  Half* const to = t.result + row * t.ld_result + column;
  if (t.bias == nullptr && t.activation == Activation::kNone && column + W * kLanes <= t.columns) {
    IPU_UNROLL for (int i = 0; i < R; ++i) {
      IPU_UNROLL for (int w = 0; w < W; ++w) store_halves(d, acc[0][i][w], to + i * t.ld_result + w * kLanes);
    }
    return;
  }
  const V zero = hn::Zero(d);
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < W; ++w) {
      V y = acc[0][i][w];
      const int64_t at = column + w * kLanes;
      if (t.bias != nullptr) y = hn::Add(y, hn::LoadU(d, t.bias + at));
      // NaN must pass through relu as in torch: keep y unless y <= 0.
      if (t.activation == Activation::kRelu) y = hn::IfThenElse(hn::Le(y, zero), zero, y);
      store_first_halves(d, y, to + i * t.ld_result + w * kLanes, t.columns - at);
    }
  }
}

template <int R, int W, int kChains>
void block_of_rows(const HalfTile& t, const float* a, const Half* b, int64_t row, int64_t column,
                   int64_t rows) {
  if constexpr (R > 0) {
    if (rows == R) return half_block<R, W, kChains>(t, a, b, row, column);
    block_of_rows<R - 1, W, kChains>(t, a, b, row, column, rows);
  }
}

// Rows in blocks of nearly equal height: a low block would wait for its conversions.
template <int W>
void half_strip(const HalfTile& t, const float* a, const Half* b, int64_t column) {
  if (t.rows <= kTwoChainRows) return block_of_rows<kTwoChainRows, W, 2>(t, a, b, 0, column, t.rows);
  const int64_t blocks = (t.rows + rows_for(W) - 1) / rows_for(W);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t row = t.rows * i / blocks;
    block_of_rows<rows_for(W), W, 1>(t, a, b, row, column, t.rows * (i + 1) / blocks - row);
  }
}

void Tile(const HalfTile& t, const float* a, const Half* b) {
  static_assert(16 % kLanes == 0);
  const int64_t columns = (t.columns + 15) / 16 * 16;
  int64_t j = 0;
  for (; j + kVectors * kLanes <= columns; j += kVectors * kLanes) half_strip<kVectors>(t, a, b, j);
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes) half_strip<2>(t, a, b, j);
  for (; j < columns; j += kLanes) half_strip<1>(t, a, b, j);
}

template <Activation kActivation, bool kAddend>
void finish_rows(const HalfEnd& end, const float* sums, int64_t ld, int64_t rows, int64_t columns,
                 Half* result) {
  const D d;
  const V zero = hn::Zero(d);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += kLanes) {
      V y = hn::LoadU(d, sums + i * ld + j);
      if (end.bias != nullptr) y = hn::Add(y, hn::LoadU(d, end.bias + j));
      if constexpr (kActivation == Activation::kRelu) y = hn::IfThenElse(hn::Le(y, zero), zero, y);
      if constexpr (kActivation == Activation::kGelu) y = gelu(d, round_to_half(d, y));
      if constexpr (kAddend)
        y = hn::Add(round_to_half(d, y),
                    load_first_halves(d, end.addend + i * end.ld_result + j, columns - j));
      store_first_halves(d, y, result + i * end.ld_result + j, columns - j);
    }
}
void Finish(const HalfEnd& end, const float* sums, int64_t ld, int64_t rows, int64_t columns, Half* result) {
  const auto of = [&](auto plain, auto adding) {
    (end.addend == nullptr ? plain : adding)(end, sums, ld, rows, columns, result);
  };
  switch (end.activation) {
    case Activation::kNone:
      return of(finish_rows<Activation::kNone, false>, finish_rows<Activation::kNone, true>);
    case Activation::kRelu:
      return of(finish_rows<Activation::kRelu, false>, finish_rows<Activation::kRelu, true>);
    case Activation::kGelu:
      return of(finish_rows<Activation::kGelu, false>, finish_rows<Activation::kGelu, true>);
  }
}

#else  // scalar loops

void Finish(const HalfEnd& end, const float* sums, int64_t ld, int64_t rows, int64_t columns, Half* result) {
  constexpr int64_t kMost = 64;
  float y[kMost], other[kMost];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += kMost) {
      const int64_t count = std::min(kMost, columns - j);
      Half* const to = result + i * end.ld_result + j;
      const auto round = [&] {
        narrow_row(y, to, count);
        widen_row(to, y, count);
      };
      // The result may be the addend.
      if (end.addend != nullptr) widen_row(end.addend + i * end.ld_result + j, other, count);
      std::copy_n(sums + i * ld + j, count, y);
      const bool is_gelu = end.activation == Activation::kGelu;
      finish_tile(y, kMost, 1, count, end.bias == nullptr ? nullptr : end.bias + j,
                  is_gelu ? Activation::kNone : end.activation);
      if (is_gelu) {
        round();
        finish_tile(y, kMost, 1, count, nullptr, Activation::kGelu);
      }
      if (end.addend != nullptr) {
        round();
        finish_tile(y, kMost, 1, count, nullptr, Activation::kNone, other);
      }
      narrow_row(y, to, count);
    }
}

void Tile(const HalfTile& t, const float* a, const Half* b) {
  for (int64_t i = 0; i < t.rows; ++i)
    for (int64_t j = 0; j < t.columns; ++j) {
      float* const sum = t.sums + i * t.ld_sums + j;
      float chains[2] = {t.continues ? *sum : 0.0f, 0.0f};
      for (int64_t p = 0; p < t.depth; ++p) {
        float value;
        widen_row(b + p * t.ldb + j, &value, 1);
        float& chain = chains[t.rows <= kTwoChainRows ? p % 2 : 0];
        chain = std::fma(a[i * t.a_row + p * t.a_depth], value, chain);
      }
      float y = t.rows <= kTwoChainRows ? chains[0] + chains[1] : chains[0];
      if (t.result == nullptr) {
        *sum = y;
        continue;
      }
      if (t.bias != nullptr) y += t.bias[j];
      if (t.activation == Activation::kRelu && y <= 0) y = 0;
      narrow_row(&y, t.result + i * t.ld_result + j, 1);
    }
}

#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
namespace {

constexpr int64_t kBlock = 32;  // rows and columns of a tile on the stack

}  // namespace

HWY_EXPORT(WidenRows);
HWY_EXPORT(NarrowRows);
HWY_EXPORT(Tile);
HWY_EXPORT(Finish);

void widen_rows(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                int64_t columns) {
  HWY_DYNAMIC_DISPATCH(WidenRows)(from, from_stride, to, to_stride, rows, columns);
}

void narrow_rows(const float* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                 int64_t columns) {
  HWY_DYNAMIC_DISPATCH(NarrowRows)(from, from_stride, to, to_stride, rows, columns);
}

void widen_transposed(const Half* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                      int64_t columns) {
  transpose_tile(from, from_stride, to, to_stride, rows, columns);
}

void narrow_transposed(const float* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                       int64_t columns) {
  float tile[kBlock * kBlock];
  for (int64_t i = 0; i < rows; i += kBlock)
    for (int64_t j = 0; j < columns; j += kBlock) {
      const int64_t height = std::min(kBlock, rows - i), width = std::min(kBlock, columns - j);
      transpose_tile(from + i * from_stride + j, from_stride, tile, height, height, width);
      narrow_rows(tile, height, to + j * to_stride + i, to_stride, width, height);
    }
}

void transpose_halves(const Half* from, int64_t from_stride, Half* to, int64_t to_stride, int64_t rows,
                      int64_t columns) {
  for (int64_t i = 0; i < rows; i += kBlock)
    for (int64_t j = 0; j < columns; j += kBlock)
      for (int64_t jj = j; jj < std::min(columns, j + kBlock); ++jj)
        for (int64_t ii = i; ii < std::min(rows, i + kBlock); ++ii)
          to[jj * to_stride + ii] = from[ii * from_stride + jj];
}

void half_tile(const HalfTile& tile, const float* a, const Half* b) {
  HWY_DYNAMIC_DISPATCH(Tile)(tile, a, b);
}

void finish_halves(const HalfEnd& end, const float* sums, int64_t ld, int64_t rows, int64_t columns,
                   Half* result) {
  HWY_DYNAMIC_DISPATCH(Finish)(end, sums, ld, rows, columns, result);
}

}  // namespace ipu::kernels
#endif
