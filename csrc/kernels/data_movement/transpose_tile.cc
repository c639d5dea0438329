// 8x8 transposes by interleaving; edges element by element. Two 8x8 side by side use whole cache lines of the
// source.
#include "kernels/data_movement/transpose_tile.h"

#include "kernels/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/data_movement/transpose_tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ipu::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void transpose_elements(const uint32_t* from, uint32_t* to, int64_t rows, int64_t columns,
                        int64_t from_column, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_row + c] = from[r + c * from_column];
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_INLINE void transpose_8x8(const uint32_t* from, uint32_t* to, int64_t from_column, int64_t to_row) {
  const hn::CappedTag<uint32_t, 8> d;
  const hn::CappedTag<uint64_t, 4> q;
  auto column = [&](int64_t c) { return hn::LoadU(d, from + c * from_column); };
  auto pair_low = [&](auto a, auto b) { return hn::BitCast(q, hn::InterleaveLower(d, a, b)); };
  auto pair_high = [&](auto a, auto b) { return hn::BitCast(q, hn::InterleaveUpper(d, a, b)); };
  const auto c0 = column(0), c1 = column(1), c2 = column(2), c3 = column(3);
  const auto c4 = column(4), c5 = column(5), c6 = column(6), c7 = column(7);
  // Rows 0,1 | 4,5 of columns 0,1 and so on.
  const auto a0 = pair_low(c0, c1), a1 = pair_low(c2, c3), a2 = pair_low(c4, c5), a3 = pair_low(c6, c7);
  const auto b0 = pair_high(c0, c1), b1 = pair_high(c2, c3), b2 = pair_high(c4, c5), b3 = pair_high(c6, c7);
  // Row r | r + 4 of four columns.
  const auto r0 = hn::InterleaveLower(q, a0, a1), s0 = hn::InterleaveLower(q, a2, a3);
  const auto r1 = hn::InterleaveUpper(q, a0, a1), s1 = hn::InterleaveUpper(q, a2, a3);
  const auto r2 = hn::InterleaveLower(q, b0, b1), s2 = hn::InterleaveLower(q, b2, b3);
  const auto r3 = hn::InterleaveUpper(q, b0, b1), s3 = hn::InterleaveUpper(q, b2, b3);
  auto store = [&](int64_t r, auto v) { hn::StoreU(hn::BitCast(d, v), d, to + r * to_row); };
  store(0, hn::ConcatLowerLower(q, s0, r0));
  store(1, hn::ConcatLowerLower(q, s1, r1));
  store(2, hn::ConcatLowerLower(q, s2, r2));
  store(3, hn::ConcatLowerLower(q, s3, r3));
  store(4, hn::ConcatUpperUpper(q, s0, r0));
  store(5, hn::ConcatUpperUpper(q, s1, r1));
  store(6, hn::ConcatUpperUpper(q, s2, r2));
  store(7, hn::ConcatUpperUpper(q, s3, r3));
}

void transpose(const uint32_t* from, uint32_t* to, int64_t rows, int64_t columns, int64_t from_column,
               int64_t to_row) {
  const int64_t whole_rows = rows / 16 * 16, whole_columns = columns / 8 * 8;
  for (int64_t r = 0; r < whole_rows; r += 16)
    for (int64_t c = 0; c < whole_columns; c += 8) {
      transpose_8x8(from + r + c * from_column, to + r * to_row + c, from_column, to_row);
      transpose_8x8(from + r + 8 + c * from_column, to + (r + 8) * to_row + c, from_column, to_row);
    }
  int64_t done = whole_rows;
  if (rows - done >= 8) {
    for (int64_t c = 0; c < whole_columns; c += 8)
      transpose_8x8(from + done + c * from_column, to + done * to_row + c, from_column, to_row);
    done += 8;
  }
  transpose_elements(from + whole_columns * from_column, to + whole_columns, done, columns - whole_columns,
                     from_column, to_row);
  transpose_elements(from + done, to + done * to_row, rows - done, columns, from_column, to_row);
}
TransposeFunction target_transpose() { return transpose; }
#else
TransposeFunction target_transpose() { return transpose_elements; }
#endif

}  // namespace ipu::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ipu::kernels {
HWY_EXPORT(target_transpose);
TransposeFunction transpose_function() {
  active_isa();
  return HWY_DYNAMIC_DISPATCH(target_transpose)();
}
}  // namespace ipu::kernels
#endif
