// The vector loop under depthwise.cc, compiled by Highway for several instruction sets.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// out[p][c] = Σ_t taps[t][p * pixel_step + c] * weights[t][c] for p < pixels, c < channels, in the order of
// t. Output pixels are out_step floats apart, rows of weights `channels`.
struct DepthwiseRow {
  int64_t pixels, channels, pixel_step, out_step;
  const float* const* taps;
  const float* const* weights;
  int64_t count;
};
void depthwise_row(const DepthwiseRow& row, float* out);

}  // namespace ipu::kernels
