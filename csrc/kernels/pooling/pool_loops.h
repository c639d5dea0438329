// Vector loops over the channels of one pooling window, compiled by Highway for several instruction sets.
// taps[t] points at the channels of one pixel of the window; order is the row-major order of the window.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// out[c] = max over taps; NaN wins; -inf for an empty window.
void max_of_taps(const float* const* taps, int64_t count, int64_t channels, float* out);

// out[c] = (Σ taps in order) / divisor.
void mean_of_taps(const float* const* taps, int64_t count, float divisor, int64_t channels, float* out);

// Adds dy[c] to the gradient of the tap that gave y[c]: the first equal one, for NaN the last NaN (as torch).
// Gradients of taps outside the caller's rows are null.
void scatter_to_maximum(const float* const* taps, float* const* gradients, int64_t count, const float* y,
                        const float* dy, int64_t channels);

// Adds dy[c] / divisor to every gradient that is not null.
void spread_to_taps(float* const* gradients, int64_t count, const float* dy, float divisor, int64_t channels);

}  // namespace ipu::kernels
