#include "support/layout.h"

#include "support/error.h"

namespace ipu {

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kPacked64:
      return "packed64";
    case Layout::kNhwc:
      return "nhwc";
  }
  return "plain";
}

std::optional<Layout> layout_from_string(std::string_view text) {
  for (Layout layout : {Layout::kPlain, Layout::kPacked64, Layout::kNhwc})
    if (to_string(layout) == text) return layout;
  return std::nullopt;
}

int64_t stored_bytes(DType dtype, const Shape& shape, Layout layout) {
  if (layout != Layout::kPacked64) return size_in_bytes(dtype, shape);
  IPU_CHECK(shape.size() == 2, "packed64 needs a matrix, not " + to_string(shape));
  int64_t width = shape[1] < 64 ? 16 : 64;
  int64_t columns = (shape[1] + width - 1) / width * width;
  return size_in_bytes(dtype, Shape{columns, shape[0]});
}

}  // namespace ipu
