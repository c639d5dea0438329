// See window.h.
#include "ops/convolution/window.h"

#include <fmt/core.h>

#include <limits>

namespace ipu::ops {

Window read_window(const Attributes& attributes, std::vector<int64_t> kernel) {
  const size_t rank = kernel.size();
  return {std::move(kernel), attributes.integers("strides"), attributes.integers("padding_low"),
          attributes.integers("padding_high"),
          attributes.integers("dilations", std::vector<int64_t>(rank, 1))};
}

Window read_window(const InferContext& context, std::vector<int64_t> kernel) {
  const size_t rank = kernel.size();
  for (const int64_t k : kernel) {
    if (k < 1) attribute_error(fmt::format("a window of {} elements is empty", to_string(kernel)));
  }
  per_dimension(context, "strides", rank, 1);
  per_dimension(context, "padding_low", rank, 0);
  per_dimension(context, "padding_high", rank, 0);
  if (context.attributes.has("dilations")) per_dimension(context, "dilations", rank, 1);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t taps = 1;
  for (const int64_t k : kernel)
    if (__builtin_mul_overflow(taps, k, &taps) || taps > kMost)
      attribute_error(
          fmt::format("a window of {} has more elements than 32 bits can count", to_string(kernel)));
  return read_window(context.attributes, std::move(kernel));
}

Attributes window_attributes(const Attributes& attributes) {
  Attributes result;
  for (const char* name : {"strides", "padding_low", "padding_high", "dilations", "groups", "kernel"}) {
    if (const Attribute* value = attributes.find(name)) result.set(name, *value);
  }
  return result;
}

LayoutWish weight_wish(const ir::Op& convolution) {
  const bool has_groups = attribute_or_default(convolution, "groups") != Attribute(int64_t{1});
  return has_groups ? LayoutWish::kPlain : LayoutWish::kPanels;
}

Shape output_sizes(const Window& window, std::span<const int64_t> input) {
  Shape sizes(window.rank());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t padded = input[d] + window.padding_low[d] + window.padding_high[d];
    if (std::max(padded, window.extent(d)) > std::numeric_limits<int32_t>::max()) {
      shape_error(
          fmt::format("a window of {} elements over {} in spatial dimension {}: "
                      "places have 32 bits, up to 2147483647",
                      window.extent(d), padded, d));
    }
    if (padded < window.extent(d)) {
      shape_error(fmt::format("the padded input has {} elements in spatial dimension {}, the window needs {}",
                              padded, d, window.extent(d)));
    }
    sizes[d] = window.output_size(d, input[d]);
  }
  return sizes;
}

void require_input_in_windows(const Window& window, std::span<const int64_t> input,
                              std::span<const int64_t> output) {
  for (size_t d = 0; d < output.size(); ++d) {
    // Where the first and the last one cover some of the input, those between do too.
    const int64_t last = (output[d] - 1) * window.strides[d] - window.padding_low[d];
    if (window.extent(d) <= window.padding_low[d] || last >= input[d])
      shape_error(fmt::format("a window in spatial dimension {} lies in the padding alone", d));
  }
}

}  // namespace ipu::ops
