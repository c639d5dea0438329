// Softmax and its relatives on one contiguous row of moderate length, each in a single call: what attention
// and classifiers run thousands of times. Sums: 16 interleaved chains added as a tree, on every instruction
// set.
#pragma once

#include <cstddef>

namespace ipu::kernels {

inline constexpr size_t kLongestShortRow = 1024;  // bounds the rounding error of the chains

struct RowSoftmax {
  void (*softmax)(const float* x, size_t count, float* out) = nullptr;
  void (*softmax_or_zero)(const float* x, size_t count, float* out) = nullptr;  // zeros for a row of -inf
  // softmax in parts, for rows of any length: the largest number, exp(x - shift) with its sum (of at most
  // kLongestShortRow elements), x / by.
  float (*largest)(const float* x, size_t count) = nullptr;
  float (*exponentials)(const float* x, size_t count, float shift, float* out) = nullptr;
  void (*divide)(float* x, size_t count, float by) = nullptr;
  void (*log_softmax)(const float* x, size_t count, float* out) = nullptr;
  void (*softmax_gradient)(const float* y, const float* dy, size_t count, float* out) = nullptr;
  // softmax_gradient in parts: the sum of y * dy (of at most kLongestShortRow elements), (dy - sum) * y.
  float (*products)(const float* y, const float* dy, size_t count) = nullptr;
  void (*gradient)(const float* y, const float* dy, size_t count, float sum, float* out) = nullptr;
  void (*log_softmax_gradient)(const float* y, const float* dy, size_t count, float* out) = nullptr;
};

const RowSoftmax& row_softmax();  // for active_isa()

}  // namespace ipu::kernels
