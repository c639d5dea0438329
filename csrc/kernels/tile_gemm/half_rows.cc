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

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef IPU_VECTOR_HALVES
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // better targets have smaller values
#define IPU_VECTOR_HALVES 1
#else
#define IPU_VECTOR_HALVES 0
#endif

// _Float16 is what the compiler calls the stored bits; its conversions round to nearest even.
void widen_row(const Half* from, float* to, int64_t count) {
  int64_t i = 0;
#if IPU_VECTOR_HALVES
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), d,
               to + i);
#endif
  for (; i < count; ++i) {
    _Float16 value;
    std::memcpy(&value, from + i, sizeof value);
    to[i] = static_cast<float>(value);
  }
}

void narrow_row(const float* from, Half* to, int64_t count) {
  int64_t i = 0;
#if IPU_VECTOR_HALVES
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, reinterpret_cast<hwy::float16_t*>(to + i));
#endif
  for (; i < count; ++i) {
    const _Float16 value = static_cast<_Float16>(from[i]);
    std::memcpy(to + i, &value, sizeof value);
  }
}

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

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kChains = 2;

// R rows × W vectors: kChains sums of each stay in registers over the whole depth.
template <int R, int W>
void few_rows_block(const FewRowsShape& s, const float* a, const Half* b, float* c) {
  const D d;
  const hn::Rebind<hwy::float16_t, D> half;
  V acc[kChains][R][W];
  IPU_UNROLL for (int q = 0; q < kChains; ++q) {
    IPU_UNROLL for (int i = 0; i < R; ++i) {
      IPU_UNROLL for (int w = 0; w < W; ++w) acc[q][i][w] = hn::Zero(d);
    }
  }
  auto add = [&](V(&sum)[R][W], int64_t p) HWY_ATTR {
    V row[W];
    IPU_UNROLL for (int w = 0; w < W; ++w) row[w] = hn::PromoteTo(
        d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(b + p * s.ldb + w * kLanes)));
    IPU_UNROLL for (int i = 0; i < R; ++i) {
      const V scalar = hn::Set(d, a[i * s.lda + p]);
      IPU_UNROLL for (int w = 0; w < W; ++w) sum[i][w] = hn::MulAdd(scalar, row[w], sum[i][w]);
    }
  };
  int64_t p = 0;
  for (; p + 2 <= s.depth; p += 2) {
    add(acc[0], p);
    add(acc[1], p + 1);
  }
  if (p < s.depth) add(acc[0], p);
  IPU_UNROLL for (int i = 0; i < R; ++i) {
    IPU_UNROLL for (int w = 0; w < W; ++w)
        hn::StoreU(hn::Add(acc[0][i][w], acc[1][i][w]), d, c + i * s.ldc + w * kLanes);
  }
}

template <int R>
void few_rows(const FewRowsShape& s, const float* a, const Half* b, float* c) {
  if constexpr (R > 0) {
    if (s.rows != R) return few_rows<R - 1>(s, a, b, c);
    constexpr int kVectors = kLanes >= 16 ? (R <= 3 ? 4 : 3) : (R <= 2 ? 2 : 1);
    int64_t j = 0;
    for (; j + kVectors * kLanes <= s.columns; j += kVectors * kLanes)
      few_rows_block<R, kVectors>(s, a, b + j, c + j);
    for (; j < s.columns; j += kLanes) few_rows_block<R, 1>(s, a, b + j, c + j);
  }
}

void FewRows(const FewRowsShape& s, const float* a, const Half* b, float* c) {
  static_assert(16 % kLanes == 0 && kFewRows <= 4);
  few_rows<kFewRows>(s, a, b, c);
}

#else  // scalar loops

void FewRows(const FewRowsShape& s, const float* a, const Half* b, float* c) {
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.columns; ++j) {
      float sums[2] = {0.0f, 0.0f};
      for (int64_t p = 0; p < s.depth; ++p) {
        float value;
        widen_row(b + p * s.ldb + j, &value, 1);
        sums[p % 2] = std::fma(a[i * s.lda + p], value, sums[p % 2]);
      }
      c[i * s.ldc + j] = sums[0] + sums[1];
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
HWY_EXPORT(FewRows);

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
  float tile[kBlock * kBlock];
  for (int64_t i = 0; i < rows; i += kBlock)
    for (int64_t j = 0; j < columns; j += kBlock) {
      const int64_t height = std::min(kBlock, rows - i), width = std::min(kBlock, columns - j);
      widen_rows(from + i * from_stride + j, from_stride, tile, width, height, width);
      transpose_tile(tile, width, to + j * to_stride + i, to_stride, height, width);
    }
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

void few_rows_product(const FewRowsShape& shape, const float* a, const Half* b, float* c) {
  HWY_DYNAMIC_DISPATCH(FewRows)(shape, a, b, c);
}

}  // namespace ipu::kernels
#endif
