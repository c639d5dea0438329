// Points in space: rows of a matrix [n, d]. What kernels and reference values of the point-cloud ops share:
// distances are squared and summed in f64, and of equal ones the first counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/random/random_fill.h"

namespace ipu::kernels {

// `x(point, i)` and `y(point, i)` are coordinates.
template <class X, class Y>
double squared_distance(X x, int64_t a, Y y, int64_t b, int64_t dimensions) {
  double sum = 0.0;
  for (int64_t i = 0; i < dimensions; ++i) {
    const double difference = x(a, i) - y(b, i);
    sum += difference * difference;
  }
  return sum;
}

// The point of y nearest to point `a` of x among those that `may` be taken, or -1.
template <class X, class Y, class May>
int64_t nearest_point(X x, int64_t a, Y y, int64_t points, int64_t dimensions, May may) {
  int64_t nearest = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t b = 0; b < points; ++b) {
    if (!may(b)) continue;
    const double distance = squared_distance(x, a, y, b, dimensions);
    if (nearest >= 0 && !(distance < least)) continue;
    nearest = b;
    least = distance;
  }
  return nearest;
}

// Farthest-point samples of the points [first, end): `start`, then each time the point whose distance to the
// nearest sample is largest. `distance` holds end - first numbers; `emit(sample)` is called `count` times, and
// ends it when it gives false.
template <class X, class Emit>
void farthest_points(X x, int64_t first, int64_t end, int64_t dimensions, int64_t start, int64_t count,
                     double* distance, Emit emit) {
  for (int64_t p = first; p < end; ++p) distance[p - first] = std::numeric_limits<double>::infinity();
  int64_t sample = start;
  for (int64_t k = 0; k < count; ++k) {
    if (!emit(sample)) return;
    int64_t farthest = first;
    for (int64_t p = first; p < end; ++p) {
      double& nearest = distance[p - first];
      const double to_sample = squared_distance(x, p, x, sample, dimensions);
      if (to_sample < nearest) nearest = to_sample;
      if (nearest > distance[farthest - first]) farthest = p;
    }
    sample = farthest;
  }
}

// The first sample of batch `batch`, which is not empty: the bits of the batch modulo its size.
inline int64_t random_start(const RandomStream& stream, int64_t batch, int64_t first, int64_t end) {
  std::array<uint32_t, 4> bits;
  random_fill().bits(stream, batch / 4 * 4, 4, bits.data());
  return first + static_cast<int64_t>(bits[static_cast<std::size_t>(batch % 4)]) % (end - first);
}

}  // namespace ipu::kernels
