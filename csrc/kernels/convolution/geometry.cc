// See geometry.h.
#include "kernels/convolution/geometry.h"

#include <algorithm>

namespace ipu::kernels {

std::optional<ConvGeometry> conv_geometry(const Shape& input, const Shape& weight, const Shape& output,
                                          const Attributes& attributes) {
  const size_t rank = input.size();
  if ((rank != 3 && rank != 4) || weight.size() != rank || output.size() != rank) return std::nullopt;
  const size_t spatial = rank - 2;
  auto list = [&](const char* name, int64_t fallback) {
    return attributes.integers(name, std::vector<int64_t>(spatial, fallback));
  };
  const auto strides = list("strides", 1), low = list("padding_low", 0), dilations = list("dilations", 1);
  if (strides.size() != spatial || low.size() != spatial || dilations.size() != spatial) return std::nullopt;
  ConvGeometry g;
  g.groups = attributes.integer("groups", 1);
  g.batch = input[0];
  g.in_channels = input[1];
  g.out_channels = weight[0];
  if (g.groups < 1 || g.in_channels % g.groups != 0 || g.out_channels % g.groups != 0) return std::nullopt;
  if (weight[1] != g.in_group() || output[0] != g.batch || output[1] != g.out_channels) return std::nullopt;
  g.in_width = input[rank - 1];
  g.out_width = output[rank - 1];
  g.kernel_width = weight[rank - 1];
  g.stride_x = strides.back();
  g.dilation_x = dilations.back();
  g.padding_left = low.back();
  if (rank == 4) {
    g.in_height = input[2];
    g.out_height = output[2];
    g.kernel_height = weight[2];
    g.stride_y = strides[0];
    g.dilation_y = dilations[0];
    g.padding_top = low[0];
  }
  if (g.stride_x < 1 || g.stride_y < 1 || g.dilation_x < 1 || g.dilation_y < 1) return std::nullopt;
  return g;
}

bool is_image(const TensorSpec& spec) {
  if (spec.dtype != DType::kF32 && spec.dtype != DType::kF16) return false;
  if (spec.shape.size() != 3 && spec.shape.size() != 4) return false;
  return spec.layout == Layout::kNhwc || spec.is_contiguous();
}

int lanes_for_cost(double microseconds, int64_t parts) {
  if (microseconds < 100) return 1;
  return static_cast<int>(
      std::clamp<int64_t>(static_cast<int64_t>(microseconds / 50), 1, std::clamp<int64_t>(parts, 1, 16)));
}

}  // namespace ipu::kernels
