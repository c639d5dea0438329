// What a pass over all elements of a tensor takes that lies evenly on the tiles of an IPU, and what is made of such passes: cycles of
// one IPU (poplibs 7eac0f2, performance estimators).
#pragma once

#include <cstdint>

#include "target/machine.h"

namespace ipu::target {

enum class Direction { kForward, kBackward };

// `function_cycles` a vector, of `operands` operands.
double pass_cycles(const Machine& machine, int64_t elements, int64_t element_bytes, double function_cycles,
                   int64_t operands);
// Sums of `elements` elements into `results` ones.
double reduce_pass_cycles(const Machine& machine, int64_t elements, int64_t results, int64_t element_bytes);
// Layer, group and batch norms of `elements` elements with `groups` means.
double norm_cycles(const Machine& machine, int64_t elements, int64_t groups, int64_t element_bytes,
                   Direction direction);
double softmax_cycles(const Machine& machine, int64_t elements, int64_t rows, int64_t element_bytes,
                      Direction direction);
// Elements in another order, for which they go to other tiles; so many bytes lie together before and after.
double rearrange_cycles(const Machine& machine, int64_t bytes, int64_t contiguous_bytes);
// Rows of a table of `table_bytes`, `row_bytes` each. The table lies on all tiles once, or as often as it is cheapest, and fits: then a tile
// looks for its share of the rows alone.
double gather_cycles(const Machine& machine, int64_t rows, int64_t row_bytes, int64_t table_bytes,
                     int64_t groups, Direction direction);
// Bytes on a tile that keep their order.
double local_copy_cycles(const Machine& machine, int64_t bytes);
double random_cycles(const Machine& machine, int64_t elements);

}  // namespace ipu::target
