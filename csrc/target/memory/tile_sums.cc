#include "target/memory/tile_sums.h"

#include <algorithm>
#include <cmath>

namespace ipu::target {

TileSums::TileSums(const Machine& machine)
    : tiles_(machine.whole("tiles")),
      least_(machine["least_tile_bytes"]),
      grain_(machine["vector_bytes"]),
      steps_(static_cast<size_t>(tiles_) + 1, 0) {}

void TileSums::add(int64_t first, int64_t tiles, double bytes) {
  total_ += bytes * static_cast<double>(tiles);
  const int64_t before_end = std::min(tiles, tiles_ - first);
  steps_[static_cast<size_t>(first)] += bytes;
  steps_[static_cast<size_t>(first + before_end)] -= bytes;
  if (before_end == tiles) return;
  steps_[0] += bytes;
  steps_[static_cast<size_t>(tiles - before_end)] -= bytes;
}

void TileSums::add_linear(double bytes) {
  if (bytes <= 0) return;
  const double part =
      std::max(std::ceil(bytes / static_cast<double>(tiles_) / grain_) * grain_, std::min(least_, bytes));
  const auto full = static_cast<int64_t>(bytes / part);
  const double rest = bytes - static_cast<double>(full) * part;
  add(next_, full, part);
  next_ = (next_ + full) % tiles_;
  if (rest <= 0) return;
  add(next_, 1, rest);
  next_ = (next_ + 1) % tiles_;
}

void TileSums::add_planned(double bytes, int64_t tiles) { add(0, tiles, bytes / static_cast<double>(tiles)); }

double TileSums::most() const {
  double sum = 0, most = 0;
  for (const double step : steps_) most = std::max(most, sum += step);
  return most;
}

}  // namespace ipu::target
