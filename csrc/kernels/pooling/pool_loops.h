// Vector loops over a row of pooling windows, compiled by Highway for several instruction sets. Vectors run
// over the channels of a pixel; taps[t] points at the channels of one pixel of the first window, in the
// row-major order of the window; the next window is `step` floats further.
#pragma once

#include <cstdint>

namespace ipu::kernels {

struct WindowRow {
  int64_t windows, channels, step;
  const float* const* taps;
  float* const* gradients;  // of the taps; null where another lane owns the pixel
  int64_t count;            // of taps
};

// out[c] = max over taps; NaN wins; -inf for an empty window. Results are dense.
void max_of_windows(const WindowRow& row, float* out);

// out[c] = (Σ taps in order) / divisor.
void mean_of_windows(const WindowRow& row, float divisor, float* out);

// Adds dy[c] to the gradient of the tap that gave y[c]: the first equal one, for NaN the last NaN (as torch).
// `assigns`: windows do not overlap, gradients are stored, not added to.
void scatter_to_maxima(const WindowRow& row, const float* y, const float* dy, bool assigns);

// Adds dy[c] / divisor to every gradient that is not null.
void spread_to_windows(const WindowRow& row, const float* dy, float divisor, bool assigns);

}  // namespace ipu::kernels
