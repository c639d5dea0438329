// From the row-major number of an element to its indices, and back.
#pragma once

#include <vector>

#include "support/shape.h"

namespace ipu::kernels::kernel_tests {

inline std::vector<int64_t> indices(const Shape& shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}
inline int64_t flat_index(const Shape& shape, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

}  // namespace ipu::kernels::kernel_tests
