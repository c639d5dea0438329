// Windows that slide over spatial dimensions: what convolution and pooling have in common.
#pragma once

#include <string_view>
#include <vector>

#include "ops/definition/rule_support.h"

namespace ipu::ops {

// Padding, strides and dilations of a window of `kernel` elements, one entry per spatial dimension.
struct Window {
  std::vector<int64_t> kernel, strides, padding_low, padding_high, dilations;

  size_t rank() const { return kernel.size(); }
  int64_t extent(size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }
  int64_t output_size(size_t d, int64_t input) const {
    return (input + padding_low[d] + padding_high[d] - extent(d)) / strides[d] + 1;
  }
};

// From attributes strides, padding_low, padding_high and dilations (all ones when the op has none). Throws
// when a list is too short or an entry out of range.
Window read_window(const InferContext& context, std::vector<int64_t> kernel);
Window read_window(const Attributes& attributes, std::vector<int64_t> kernel);
Attributes window_attributes(const Attributes& attributes);  // just these, and groups if there

// How a convolution reads its weight and makes its gradient: in panels, but for channels in groups.
LayoutWish weight_wish(const ir::Op& convolution);

// Spatial sizes of the output; throws when the padded input is smaller than the window.
Shape output_sizes(const Window& window, std::span<const int64_t> input);
// Throws when a window covers padding alone; `output`: what output_sizes gives.
void require_input_in_windows(const Window& window, std::span<const int64_t> input,
                              std::span<const int64_t> output);

// Calls visit(tap, input) for each tap of the window at output position `at` that lies inside the input, in
// row-major order; tap and input are offsets into row-major arrays of the kernel's and the input's spatial
// sizes.
template <typename Visit>
void for_each_tap(const Window& window, std::span<const int64_t> input, const std::vector<int64_t>& at,
                  Visit visit) {
  const int64_t taps = element_count(window.kernel);
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t rest = tap, offset = 0, stride = 1;
    bool inside = true;
    for (size_t d = window.rank(); d-- > 0;) {
      const int64_t k = rest % window.kernel[d];
      rest /= window.kernel[d];
      const int64_t position = at[d] * window.strides[d] - window.padding_low[d] + k * window.dilations[d];
      inside = inside && position >= 0 && position < input[d];
      offset += position * stride;
      stride *= input[d];
    }
    if (inside) visit(tap, offset);
  }
}

// Calls visit(linear, position) for every position of a space, in row-major order.
template <typename Visit>
void for_each_position(std::span<const int64_t> shape, Visit visit) {
  std::vector<int64_t> at(shape.size(), 0);
  const int64_t count = element_count(shape);
  for (int64_t linear = 0; linear < count; ++linear) {
    visit(linear, at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace ipu::ops
