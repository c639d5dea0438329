// One strided region to another: the engine of copy, concat, pad, slice_scatter and flip. Prepared once per
// shape; cut into units of some thousand elements so that callers can deal them to lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/data_movement/transpose_tile.h"
#include "kernels/stop_meter.h"
#include "support/shape.h"

namespace ipu::kernels {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides in elements; a source stride may be zero or negative, a destination stride is positive.
  StridedCopy(std::span<const int64_t> extents, const Strides& from_strides, const Strides& to_strides,
              int64_t element_bytes);

  int64_t elements() const { return elements_; }
  int64_t units() const { return units_; }
  void run(const std::byte* from, std::byte* to, int64_t first_unit, int64_t last_unit) const;
  void run(const std::byte* from, std::byte* to) const { run(from, to, 0, units_); }
  int64_t unit_elements() const { return unit_elements_; }

 private:
  template <class T>
  void run_as(const T* from, T* to, int64_t first_unit, int64_t last_unit) const;

  int64_t elements_ = 0, units_ = 0, element_bytes_ = 4;
  int64_t unit_elements_ = 1;
  TransposeFunction transpose_ = nullptr;  // 32-bit elements whose rows and columns change places
  Shape outer_;                            // extents of the dimensions around the two that make a tile
  Strides outer_from_, outer_to_;
  // The tile dimensions: columns run along the destination, rows along the source when that is another
  // dimension.
  int64_t rows_ = 1, columns_ = 1;
  int64_t from_row_ = 0, from_column_ = 0, to_row_ = 0, to_column_ = 1;
  int64_t tile_rows_ = 1, tile_columns_ = 1, row_tiles_ = 1, column_tiles_ = 1;
};

// Rows of the loops that move elements. Who calls them counts a row as work; one longer than a piece is done
// in pieces, and left when the meter stops. A hostile program's result may lie in its operand: memmove, which
// costs the same.

inline void copy_bytes(StopMeter& meter, std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes <= 0) return;  // of a tensor without elements there may be no address
  if (bytes <= StopMeter::kPiece) return void(std::memmove(to, from, static_cast<size_t>(bytes)));
  in_pieces(meter, bytes, 1,
            [&](int64_t at, int64_t n) { std::memmove(to + at, from + at, static_cast<size_t>(n)); });
}
inline void clear_bytes(StopMeter& meter, std::byte* to, int64_t bytes) {
  if (bytes <= 0) return;
  if (bytes <= StopMeter::kPiece) return void(std::memset(to, 0, static_cast<size_t>(bytes)));
  in_pieces(meter, bytes, 1, [&](int64_t at, int64_t n) { std::memset(to + at, 0, static_cast<size_t>(n)); });
}
inline void copy_units(StopMeter& meter, const StridedCopy& copy, const std::byte* from, std::byte* to) {
  if (copy.elements() <= StopMeter::kPiece) return copy.run(from, to);
  in_pieces(meter, copy.units(), copy.unit_elements(),
            [&](int64_t at, int64_t n) { copy.run(from, to, at, at + n); });
}
// `count` elements of 1, 2, 4 or 8 bytes, all like the one at `value`.
void fill_elements(StopMeter& meter, std::byte* to, int64_t count, const std::byte* value,
                   int64_t element_bytes);

}  // namespace ipu::kernels
