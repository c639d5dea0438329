// How much lies on each tile of an IPU when tensors are mapped one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "target/machine.h"

namespace ipu::target {

// Sums are made when asked for: adding a tensor takes the same time whatever its size.
class TileSums {
 public:
  explicit TileSums(const Machine& machine);

  // The linear mapping: equal parts in whole vectors, of `least_tile_bytes` at least, so that small tensors lie on few tiles. The next
  // tensor goes on where this one ends.
  void add_linear(double bytes);
  // As a plan wants it: on so many of the first tiles.
  void add_planned(double bytes, int64_t tiles);

  double total() const { return total_; }
  double most() const;  // of a tile

 private:
  void add(int64_t first, int64_t tiles, double bytes);  // to each

  int64_t tiles_, next_ = 0;
  double least_, grain_, total_ = 0;
  std::vector<double> steps_;  // the difference of each tile to the one before
};

}  // namespace ipu::target
