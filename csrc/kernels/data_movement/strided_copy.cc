// Strided copies by tiles: rows of memcpy where both sides are contiguous, small square tiles where the
// source runs along another dimension than the destination (transposes), plain loops otherwise.
#include "kernels/data_movement/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kUnitElements = 16 * 1024;
constexpr int64_t kTransposeTile =
    64;  // rows and columns of a unit; inside it 16 x 16 stay in the first-level cache

template <class T>
void copy_row(const T* from, T* to, int64_t count) {
  if (count * static_cast<int64_t>(sizeof(T)) <= 64) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    std::memmove(to, from, static_cast<size_t>(count) * sizeof(T));
  }
}

template <class T>
void transpose_tile(const T* from, T* to, int64_t rows, int64_t columns, int64_t from_row,
                    int64_t from_column, int64_t to_row, int64_t to_column) {
  constexpr int64_t kSide = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kSide)
    for (int64_t c0 = 0; c0 < columns; c0 += kSide) {
      const int64_t r1 = std::min(r0 + kSide, rows), c1 = std::min(c0 + kSide, columns);
      for (int64_t r = r0; r < r1; ++r) {
        const T* source = from + r * from_row;
        T* target = to + r * to_row;
        for (int64_t c = c0; c < c1; ++c) target[c * to_column] = source[c * from_column];
      }
    }
}

}  // namespace

StridedCopy::StridedCopy(std::span<const int64_t> extents, const Strides& from_strides,
                         const Strides& to_strides, int64_t element_bytes)
    : elements_(element_count(extents)), element_bytes_(element_bytes) {
  if (elements_ == 0) return;
  CollapsedDims dims = collapse(extents, {from_strides, to_strides});
  Strides &from = dims.strides[0], &to = dims.strides[1];
  auto take = [&](size_t d) {
    dims.extents.erase(dims.extents.begin() + static_cast<std::ptrdiff_t>(d));
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(d));
    to.erase(to.begin() + static_cast<std::ptrdiff_t>(d));
  };
  if (!dims.extents.empty()) {
    columns_ = dims.extents.back();
    from_column_ = from.back();
    to_column_ = to.back();
    take(dims.extents.size() - 1);
  }
  bool transposes = false;
  if (!dims.extents.empty()) {
    size_t row = dims.extents.size() - 1;
    if (std::abs(from_column_) > 1)
      for (size_t d = 0; d < dims.extents.size(); ++d)
        if (std::abs(from[d]) == 1 && dims.extents[d] > 1) row = d, transposes = true;
    rows_ = dims.extents[row];
    from_row_ = from[row];
    to_row_ = to[row];
    take(row);
  }
  outer_ = dims.extents;
  outer_from_ = from;
  outer_to_ = to;
  if (transposes && element_bytes == 4 && from_row_ == 1 && to_column_ == 1)
    transpose_ = transpose_function();
  if (transposes) {
    // A short side leaves room for a longer other side.
    tile_columns_ = std::min(columns_, kTransposeTile);
    tile_rows_ = std::min(rows_, std::max(kTransposeTile, kUnitElements / 4 / tile_columns_));
  } else {
    tile_columns_ = std::min(columns_, kUnitElements);
    tile_rows_ = std::min(rows_, std::max<int64_t>(1, kUnitElements / tile_columns_));
  }
  row_tiles_ = (rows_ + tile_rows_ - 1) / tile_rows_;
  column_tiles_ = (columns_ + tile_columns_ - 1) / tile_columns_;
  units_ = row_tiles_ * column_tiles_ * (elements_ / (rows_ * columns_));
  unit_elements_ = tile_rows_ * tile_columns_;
}

template <class T>
void StridedCopy::run_as(const T* from, T* to, int64_t first_unit, int64_t last_unit) const {
  for (int64_t unit = first_unit; unit < last_unit; ++unit) {
    int64_t rest = unit;
    const int64_t column = rest % column_tiles_ * tile_columns_;
    rest /= column_tiles_;
    const int64_t row = rest % row_tiles_ * tile_rows_;
    rest /= row_tiles_;
    int64_t from_at = row * from_row_ + column * from_column_, to_at = row * to_row_ + column * to_column_;
    for (size_t d = outer_.size(); d-- > 0;) {
      const int64_t index = rest % outer_[d];
      rest /= outer_[d];
      from_at += index * outer_from_[d];
      to_at += index * outer_to_[d];
    }
    const int64_t rows = std::min(tile_rows_, rows_ - row),
                  columns = std::min(tile_columns_, columns_ - column);
    const T* source = from + from_at;
    T* target = to + to_at;
    if (from_column_ == 1 && to_column_ == 1) {
      for (int64_t r = 0; r < rows; ++r) copy_row(source + r * from_row_, target + r * to_row_, columns);
    } else if (from_column_ == 0 && to_column_ == 1) {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(target + r * to_row_, columns, source[r * from_row_]);
    } else if (transpose_ != nullptr) {
      transpose_(reinterpret_cast<const uint32_t*>(source), reinterpret_cast<uint32_t*>(target), rows,
                 columns, from_column_, to_row_);
    } else {
      transpose_tile(source, target, rows, columns, from_row_, from_column_, to_row_, to_column_);
    }
  }
}

void StridedCopy::run(const std::byte* from, std::byte* to, int64_t first_unit, int64_t last_unit) const {
  auto as = [&]<class T>(T) {
    run_as(reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to), first_unit, last_unit);
  };
  switch (element_bytes_) {
    case 1:
      return as(uint8_t{});
    case 2:
      return as(uint16_t{});
    case 4:
      return as(uint32_t{});
    default:
      return as(uint64_t{});
  }
}

void fill_elements(StopMeter& meter, std::byte* to, int64_t count, const std::byte* value,
                   int64_t element_bytes) {
  auto as = [&]<class T>(T element) {
    std::memcpy(&element, value, sizeof(T));
    auto* elements = reinterpret_cast<T*>(to);
    if (count <= StopMeter::kPiece) return void(std::fill_n(elements, count, element));
    in_pieces(meter, count, 1, [&](int64_t at, int64_t n) { std::fill_n(elements + at, n, element); });
  };
  switch (element_bytes) {
    case 1:
      return as(uint8_t{});
    case 2:
      return as(uint16_t{});
    case 4:
      return as(uint32_t{});
    default:
      return as(uint64_t{});
  }
}

}  // namespace ipu::kernels
