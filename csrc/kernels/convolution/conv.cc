// Kernels "conv" and "conv_input_gradient", 1-d and 2-d, f32 or f16, activations plain or nhwc in any mix.
// Weights are plain [O,C/groups,*kernel] and packed in scratch at every run; "conv" also takes packed64 of
// [taps*C, O], rows in tap-major order, with attribute {kernel_shape=[O,C,*kernel]} (see "convert_layout"
// with {conv_weight=true}).
#include <optional>
#include <string>
#include <utility>

#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/geometry.h"
#include "kernels/convolution/tap_product.h"
#include "kernels/kernel_table.h"

namespace ipu::kernels {
namespace {

class TapKernel : public PreparedKernel {
 public:
  TapKernel(TapProductShape shape, bool has_bias) : product_(std::move(shape)), has_bias_(has_bias) {}
  int lanes() const override { return product_.lanes(); }
  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelCall& call, int lane) const override {
    product_.run(call.operands[0], call.operands[1], has_bias_ ? call.operands[2] : nullptr, call.results[0],
                 call.scratch, lane);
  }

 private:
  TapProduct product_;
  bool has_bias_;
};

class DepthwiseKernel : public PreparedKernel {
 public:
  DepthwiseKernel(TapProductShape shape, bool has_bias) : product_(std::move(shape)), has_bias_(has_bias) {}
  int lanes() const override { return product_.lanes(); }
  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelCall& call, int lane) const override {
    product_.run(call.operands[0], call.operands[1], has_bias_ ? call.operands[2] : nullptr, call.results[0],
                 call.scratch, lane);
  }

 private:
  DepthwiseProduct product_;
  bool has_bias_;
};

bool is_depthwise(const TapProductShape& shape) {
  return shape.groups > 1 && shape.groups == shape.in.channels && shape.groups == shape.out.channels;
}

std::unique_ptr<PreparedKernel> make_kernel(TapProductShape shape, bool has_bias) {
  if (is_depthwise(shape)) return std::make_unique<DepthwiseKernel>(std::move(shape), has_bias);
  return std::make_unique<TapKernel>(std::move(shape), has_bias);
}

constexpr double kFlopsPerMicrosecond = 100e3, kElementsPerMicrosecond = 4e3;
constexpr int64_t kVectorWidth = 16;

// Few channels fill a part of the vectors only, and images are moved besides.
double microseconds(const ConvGeometry& g, const TapProductShape& shape) {
  const int64_t channels = std::max<int64_t>(1, shape.out.channels / shape.groups);
  const double filled =
      is_depthwise(shape)
          ? 1.0
          : static_cast<double>(channels) /
                static_cast<double>((channels + kVectorWidth - 1) / kVectorWidth * kVectorWidth);
  return g.flops() / filled / kFlopsPerMicrosecond +
         static_cast<double>(shape.batch * (shape.in.elements() + shape.out.elements())) /
             kElementsPerMicrosecond;
}

std::unique_ptr<PreparedKernel> prepare_conv(const KernelRequest& request) {
  if (request.operands.size() < 2 || request.results.size() != 1) return nullptr;
  const TensorSpec &x = request.operands[0], &w = request.operands[1], &y = request.results[0];
  if (!is_image(x) || !is_image(y) || w.dtype != x.dtype || y.dtype != x.dtype) return nullptr;
  const bool packed = w.layout == Layout::kPacked64;
  if (packed ? !request.attributes.has("kernel_shape") : !w.is_contiguous()) return nullptr;
  const Shape& kernel = packed ? request.attributes.integers("kernel_shape") : w.shape;
  const auto g = conv_geometry(x.shape, kernel, y.shape, request.attributes);
  if (!g || (packed && (g->groups != 1 || w.shape != Shape{g->taps() * g->in_channels, g->out_channels})))
    return nullptr;
  // An absent optional bias is a missing operand or a spec without a shape.
  const bool has_bias = request.operands.size() > 2 && request.operands[2].shape.size() == 1;
  if (has_bias && (request.operands[2].dtype != x.dtype || !request.operands[2].is_contiguous()))
    return nullptr;

  TapProductShape shape;
  const std::string activation = request.attributes.text("activation", "none");
  if (activation == "relu")
    shape.activation = Activation::kRelu;
  else if (activation != "none")
    return nullptr;
  shape.batch = g->batch;
  shape.groups = g->groups;
  shape.is_half = x.dtype == DType::kF16;
  shape.in = {g->in_channels, g->in_height, g->in_width, x.layout == Layout::kNhwc, shape.is_half};
  shape.out = {g->out_channels, g->out_height, g->out_width, y.layout == Layout::kNhwc, shape.is_half};
  shape.in_row_step = g->stride_y;
  shape.in_column_step = g->stride_x;
  shape.weight_taps = g->taps();
  shape.weight_is_packed = packed;
  shape.cost = microseconds(*g, shape);
  TapPhase phase;
  for (int64_t ky = 0; ky < g->kernel_height; ++ky)
    for (int64_t kx = 0; kx < g->kernel_width; ++kx)
      phase.taps.push_back({ky * g->dilation_y - g->padding_top, kx * g->dilation_x - g->padding_left,
                            ky * g->kernel_width + kx});
  shape.phases.push_back(std::move(phase));
  return make_kernel(std::move(shape), has_bias);
}

// Output positions of one residue of the stride and, per kernel position that reaches them, the row of dy it
// meets: position p = first + i * stride takes dy at i + offset.
struct Residue {
  int64_t first;
  std::vector<std::pair<int64_t, int64_t>> reached;  // (offset, kernel position), ascending offset
};

std::vector<Residue> residues(int64_t stride, int64_t dilation, int64_t padding, int64_t kernel) {
  std::vector<Residue> all;
  for (int64_t first = 0; first < stride; ++first) {
    Residue residue{first, {}};
    for (int64_t k = kernel; k-- > 0;) {
      const int64_t distance = first + padding - k * dilation;
      if (distance % stride == 0) residue.reached.emplace_back(distance / stride, k);
    }
    all.push_back(std::move(residue));
  }
  return all;
}

std::unique_ptr<PreparedKernel> prepare_conv_input_gradient(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 1) return nullptr;
  const TensorSpec &dy = request.operands[0], &w = request.operands[1], &dx = request.results[0];
  if (!is_image(dy) || !is_image(dx) || !w.is_contiguous()) return nullptr;
  if (w.dtype != dy.dtype || dx.dtype != dy.dtype) return nullptr;
  const auto g = conv_geometry(dx.shape, w.shape, dy.shape, request.attributes);
  if (!g) return nullptr;
  TapProductShape shape;
  shape.batch = g->batch;
  shape.groups = g->groups;
  shape.is_half = dy.dtype == DType::kF16;
  shape.in = {g->out_channels, g->out_height, g->out_width, dy.layout == Layout::kNhwc, shape.is_half};
  shape.out = {g->in_channels, g->in_height, g->in_width, dx.layout == Layout::kNhwc, shape.is_half};
  shape.weight_taps = g->taps();
  shape.swaps_channels = true;
  shape.cost = microseconds(*g, shape);
  for (const Residue& y : residues(g->stride_y, g->dilation_y, g->padding_top, g->kernel_height))
    for (const Residue& x : residues(g->stride_x, g->dilation_x, g->padding_left, g->kernel_width)) {
      TapPhase phase;
      phase.first_row = y.first;
      phase.row_step = g->stride_y;
      phase.first_column = x.first;
      phase.column_step = g->stride_x;
      for (const auto& [row, ky] : y.reached)
        for (const auto& [column, kx] : x.reached)
          phase.taps.push_back({row, column, ky * g->kernel_width + kx});
      shape.phases.push_back(std::move(phase));
    }
  return make_kernel(std::move(shape), false);
}

IPU_REGISTER_KERNEL("conv", prepare_conv);
IPU_REGISTER_KERNEL("conv_input_gradient", prepare_conv_input_gradient);

}  // namespace
}  // namespace ipu::kernels
