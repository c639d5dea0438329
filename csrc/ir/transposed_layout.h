// The layout by which a transpose reads the memory of its operand as it stands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/layout.h"

namespace ipu::ir {

// `layout` of a tensor, as the one of its transpose by `perm` (dimension i of the result is dimension perm[i] of the operand).
inline Layout transposed_layout(const Layout& layout, std::span<const int64_t> perm) {
  std::vector<int> position(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) position[static_cast<size_t>(perm[i])] = static_cast<int>(i);
  std::vector<int> order = layout.order(perm.size());
  for (int& dimension : order) dimension = position[static_cast<size_t>(dimension)];
  return Layout(order, position[static_cast<size_t>(layout.cut())], layout.block());
}

}  // namespace ipu::ir
