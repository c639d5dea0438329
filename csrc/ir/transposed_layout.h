// The layout by which a transpose reads the memory of its operand as it stands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/layout.h"

namespace ipu::ir {

// `layout` of a tensor of this rank whose dimension i is called map[i] from here on.
template <class Map>
Layout renamed_layout(const Layout& layout, size_t rank, const Map& map) {
  std::vector<int> order = layout.order(rank);
  for (int& dimension : order) dimension = map[static_cast<size_t>(dimension)];
  return Layout(order, map[static_cast<size_t>(layout.cut())], layout.block());
}

// `layout` of a tensor, as the one of its transpose by `perm` (dimension i of the result is dimension perm[i] of the operand).
inline Layout transposed_layout(const Layout& layout, std::span<const int64_t> perm) {
  std::vector<int> position(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) position[static_cast<size_t>(perm[i])] = static_cast<int>(i);
  return renamed_layout(layout, perm.size(), position);
}

}  // namespace ipu::ir
