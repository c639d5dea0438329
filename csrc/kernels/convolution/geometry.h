// The numbers of a 1-d or 2-d convolution, read from specs and attributes once. 1-d is 2-d of height 1.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kernel_table.h"
#include "kernels/lanes.h"

namespace ipu::kernels {

constexpr int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }
constexpr int64_t round_up(int64_t value, int64_t step) { return divide_up(value, step) * step; }

struct ConvGeometry {
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  int64_t in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int64_t padding_top = 0, padding_left = 0;

  int64_t in_group() const { return in_channels / groups; }
  int64_t out_group() const { return out_channels / groups; }
  int64_t taps() const { return kernel_height * kernel_width; }
  // Whether panels of this shape are those of the weight.
  bool is_packed_in(const Shape& panels) const {
    return groups == 1 && panels == Shape{taps() * in_channels, out_channels};
  }
  double flops() const {
    return 2.0 * static_cast<double>(batch * out_height * out_width) * static_cast<double>(out_channels) *
           static_cast<double>(in_group() * taps());
  }
};

// Shapes are [N,C,*spatial], [O,C/groups,*kernel], [N,O,*spatial]. nullopt when they or the attributes do not
// fit, or are so large that preparing would take seconds or sizes would overflow: more than 2^20 taps,
// strides, dilations or padding above 2^31, rows of more than 2^30 floats with their padding, ... The shapes
// must be bounded (require_sound).
std::optional<ConvGeometry> conv_geometry(const Shape& input, const Shape& weight, const Shape& output,
                                          const KernelRequest& request);
// One dimension of a window: positions start * stride - low + tap * dilation. Whether they, and an image
// that is padded until all of them lie in it, have coordinates of at most kMostElements.
bool is_bounded_window(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                       int64_t low);

// Plain contiguous or nhwc activations of rank 3 or 4, f32 or f16.
bool is_image(const TensorSpec& spec);

}  // namespace ipu::kernels
