// Layouts for tensors of given shapes, those that no kernel reads so among them.
#pragma once

#include <algorithm>

#include "support/layout.h"

namespace ipu {

inline Layout panels_for(const Shape& shape) {
  return Layout::panels_of_matrix(shape.empty() ? 1 : shape.back());
}
inline Layout channels_last_for(const Shape& shape) {
  return Layout::channels_last(std::max<size_t>(shape.size(), 3));
}
// By number: plain, panels, channels last.
inline Layout layout_number(int64_t number, const Shape& shape) {
  return number == 0 ? Layout::kPlain : number == 1 ? panels_for(shape) : channels_last_for(shape);
}

}  // namespace ipu
