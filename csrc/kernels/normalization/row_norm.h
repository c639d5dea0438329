// Inner loops of layer norm on rows of f32 or f16, compiled per instruction set. Halves are widened as they are read and
// rounded once, where they are stored. Sums run in f32, in chains of a fixed number that is the same for every vector
// width, so AVX2 and AVX-512 give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipu::kernels {

struct RowStatistics {
  float mean = 0.0f, rstd = 0.0f;  // rstd: 1 / sqrt(variance + eps)
};

// Columns that one call of add_rows works on, and the most rows it adds in f32.
inline constexpr size_t kNormColumns = 64, kNormRows = 64;

// T: float, or uint16_t for the stored bits of an f16. weight and bias may be nullptr: 1 and 0.
template <class T>
struct RowNorm {
  // Computes mean and rstd of `count` > 0 elements. The variance is the mean of the squared differences.
  RowStatistics (*statistics)(const T* x, size_t count, float eps) = nullptr;
  // y = (x - mean) * rstd * weight + bias; y may be x.
  void (*normalize)(const T* x, size_t count, RowStatistics s, const T* weight, const T* bias,
                    T* y) = nullptr;
  // dx = rstd * (g - mean(g) - n * mean(g * n)), where n is the normalized row and g = dy * weight; dx may be x
  // or dy.
  void (*gradient)(const T* x, const T* dy, size_t count, RowStatistics s, const T* weight, T* dx) = nullptr;
  // dweight = sum of dy * n and dbias = sum of dy over at most kNormRows rows of at most kNormColumns columns
  // that lie `stride` elements apart. means and rstds: one for each row.
  void (*add_rows)(const T* x, const T* dy, size_t rows, size_t columns, size_t stride, const float* means,
                   const float* rstds, float* dweight, float* dbias) = nullptr;
};
template <class T>
const RowNorm<T>& row_norm();  // for active_isa()

}  // namespace ipu::kernels
