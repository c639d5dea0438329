// See geometry.h.
#include "kernels/convolution/geometry.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/footprint.h"

namespace ipu::kernels {
namespace {

// What is made for each tap, residue of the stride and row while preparing, and kept in scratch while
// running.
bool is_affordable(const ConvGeometry& g) {
  constexpr int64_t kMostTaps = int64_t{1} << 20, kMostPrepared = int64_t{1} << 26;
  constexpr int64_t kMostBlocks = int64_t{1} << 22;
  constexpr int64_t kMostRowFloats = int64_t{1} << 30, kMostScratch = int64_t{1} << 50;
  const Checked taps = Checked(g.kernel_height) * g.kernel_width;
  if (taps > kMostTaps || g.groups > kMostTaps) return false;
  // Residues of an input gradient, what each of them walks, and blocks of a weight gradient.
  const Checked residues = Checked(g.stride_y) * g.stride_x;
  if (residues > kMostTaps || residues * (Checked(g.out_height) + g.in_height + 1) > kMostPrepared ||
      Checked(g.stride_y) * g.kernel_height + Checked(g.stride_x) * g.kernel_width > kMostPrepared ||
      Checked(g.groups) * taps * (std::max(g.in_group(), g.out_group()) / 64 + 1) > kMostBlocks)
    return false;
  const Checked channels = std::max(g.in_channels, g.out_channels);
  const Checked reach_x = Checked(g.in_width) + std::abs(g.padding_left) + Checked(g.out_width) * g.stride_x +
                          Checked(g.kernel_width) * g.dilation_x;
  const Checked reach_y = Checked(g.in_height) + std::abs(g.padding_top) +
                          Checked(g.out_height) * g.stride_y + Checked(g.kernel_height) * g.dilation_y;
  const bool pads = g.padding_left != 0 || g.kernel_width > 1 || g.stride_x > 1;
  if (pads && reach_x * channels > kMostRowFloats) return false;
  return reach_x * reach_y * channels <= kMostScratch;
}

}  // namespace

bool is_bounded_window(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                       int64_t low) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (stride < 1 || dilation < 1 || low > kMost || low < -kMost || stride > kMost || dilation > kMost)
    return false;
  return Checked(in) + Checked(out) * stride + Checked(kernel) * dilation <= kMostElements;
}

std::optional<ConvGeometry> conv_geometry(const Shape& input, const Shape& weight, const Shape& output,
                                          const KernelRequest& request) {
  const size_t rank = input.size();
  if ((rank != 3 && rank != 4) || weight.size() != rank || output.size() != rank) return std::nullopt;
  for (int64_t extent : weight)  // may be an attribute
    if (extent < 0 || extent > kMostElements) return std::nullopt;
  const size_t spatial = rank - 2;
  auto list = [&](const char* name, int64_t fallback) {
    return integers_of(request, name, std::vector<int64_t>(spatial, fallback));
  };
  const auto strides = list("strides", 1), low = list("padding_low", 0), dilations = list("dilations", 1);
  if (strides.size() != spatial || low.size() != spatial || dilations.size() != spatial) return std::nullopt;
  ConvGeometry g;
  g.groups = integer_of(request, "groups", 1);
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
  if (!is_bounded_window(g.in_width, g.out_width, g.kernel_width, g.stride_x, g.dilation_x, g.padding_left) ||
      !is_bounded_window(g.in_height, g.out_height, g.kernel_height, g.stride_y, g.dilation_y,
                         g.padding_top) ||
      !is_affordable(g))
    return std::nullopt;
  return g;
}

bool is_image(const TensorSpec& spec) {
  if (spec.dtype != DType::kF32 && spec.dtype != DType::kF16) return false;
  if (spec.shape.size() != 3 && spec.shape.size() != 4) return false;
  return spec.layout.is_channels_last() || spec.is_contiguous();
}

}  // namespace ipu::kernels
