// The vector loop under depthwise_gradient.cc, compiled by Highway for several instruction sets.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// Computes for kChannels channels one row of a kernel's gradient: sums[tap][c] += Σ over rows and pixels of
// dy[row][pixel][c] * x[row][pixel * pixel_step + tap * tap_step + c], each one chain of multiply-adds from zero in the
// order of rows and pixels. Steps are in floats; pixels of dy are kChannels apart.
struct DepthwiseTaps {
  static constexpr int64_t kChannels = 16;
  int64_t rows = 0, pixels = 0, taps = 0, pixel_step = 0, tap_step = 0;
  const float* const* x = nullptr;
  const float* const* dy = nullptr;
};
void add_tap_products(const DepthwiseTaps& taps, float* sums);

}  // namespace ipu::kernels
