// The vector loops under channel_sums.cc, compiled by Highway for several instruction sets.
#pragma once

#include <cstdint>

namespace ipu::kernels {

// Takes `count` rows of `channels` floats, `pitch` apart, into the mean and the sum of squared distances from
// it (`squares`) of each channel; `before` rows are in them already. The rows are read twice: for their own mean, and
// for the distances from it; so no digits are lost, however far the mean is from zero.
struct MomentsRows {
  const float* rows;
  int64_t pitch, count, channels, before;
};
void add_moments(const MomentsRows& rows, float* mean, float* squares);

// sum[c] += Σ dy, product[c] += Σ dy * (x - mean[c]) over the rows of x and those of dy, `dy_pitch` apart.
void add_gradients(const MomentsRows& x, const float* dy, int64_t dy_pitch, const float* mean, float* sum,
                   float* product);

}  // namespace ipu::kernels
