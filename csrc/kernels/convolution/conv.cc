// Kernels "conv", "fused_conv" (f32) and "conv_input_gradient", 1-d and 2-d, f32 or f16, activations plain or nhwc in any mix.
// Weights are plain [O,C/groups,*kernel] and packed in scratch at every run, or, without groups, panels of
// [taps*C, O], rows in tap-major order, with attribute {kernel_shape=[O,C,*kernel]} (see "convert_layout"
// with {conv_weight=true}): "conv" reads these as they are.
#include <optional>
#include <string>
#include <utility>

#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/geometry.h"
#include "kernels/convolution/tap_product.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"

namespace ipu::kernels {
namespace {

// Which operands end the convolution; -1: absent.
struct EndPlan {
  int scale = -1, bias = -1, addend = -1;
};

template <class Convolution>
class ConvKernel : public PreparedKernel {
 public:
  ConvKernel(TapProductShape shape, const EndPlan& end) : product_(std::move(shape)), end_(end) {}
  int lanes() const override { return product_.lanes(); }
  int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  void run(const KernelCall& call, int lane) const override {
    auto operand = [&](int i) { return i < 0 ? nullptr : reinterpret_cast<const float*>(call.operands[i]); };
    StopMeter meter(call);
    product_.run(call.operands[0], call.operands[1],
                 {operand(end_.bias), operand(end_.scale), operand(end_.addend)}, call.results[0],
                 call.scratch, lane, meter);
  }

 private:
  Convolution product_;
  EndPlan end_;
};

bool is_depthwise(const TapProductShape& shape) {
  return shape.groups > 1 && shape.groups == shape.in.channels && shape.out.channels > 0 &&
         (shape.groups == shape.out.channels || !shape.swaps_channels);
}

std::unique_ptr<PreparedKernel> make_kernel(TapProductShape shape, const EndPlan& end) {
  if (is_depthwise(shape)) return std::make_unique<ConvKernel<DepthwiseProduct>>(std::move(shape), end);
  return std::make_unique<ConvKernel<TapProduct>>(std::move(shape), end);
}

constexpr double kFlopsPerMicrosecond = 100e3, kElementsPerMicrosecond = 4e3;
constexpr int64_t kVectorWidth = 16;

// Few channels fill a part of the vectors only, and images are moved besides.
double microseconds(const ConvGeometry& g, const TapProductShape& shape) {
  const int64_t channels = std::max<int64_t>(1, shape.out.channels / shape.groups);
  const int64_t lanes = (channels + kVectorWidth - 1) / kVectorWidth * kVectorWidth;
  const double filled =
      is_depthwise(shape) ? 1.0 : static_cast<double>(channels) / static_cast<double>(lanes);
  return g.flops() / filled / kFlopsPerMicrosecond +
         static_cast<double>(shape.batch * (shape.in.elements() + shape.out.elements())) /
             kElementsPerMicrosecond;
}

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
struct ConvPlan {
  ConvGeometry geometry;
  bool packed = false;
  EndPlan end;
  Activation activation = Activation::kNone;
};

// Where operand i, which may be absent (a missing operand or a spec without a shape), is; nullopt: it has not one
// element a channel.
std::optional<int> place_by_channel(const KernelRequest& request, size_t i, const ConvGeometry& g) {
  if (request.operands.size() <= i || request.operands[i].shape.empty()) return -1;
  const TensorSpec& spec = request.operands[i];
  if (spec.dtype != request.operands[0].dtype || !spec.is_contiguous() || spec.shape != Shape{g.out_channels})
    return std::nullopt;
  return static_cast<int>(i);
}

// "conv" has operands x, weight, bias; "fused_conv" x, weight, scale, bias, addend, all f32.
template <bool kFused>
std::optional<ConvPlan> plan_conv(const KernelRequest& request) {
  if (request.operands.size() < 2 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[0], &w = request.operands[1], &y = request.results[0];
  if (!is_image(x) || !is_image(y) || w.dtype != x.dtype || y.dtype != x.dtype) return std::nullopt;
  ConvPlan plan;
  plan.packed = w.layout.is_blocked();
  if (plan.packed ? !request.attributes.has("kernel_shape") : !w.is_contiguous()) return std::nullopt;
  const Shape& kernel = plan.packed ? integers_of(request, "kernel_shape") : w.shape;
  const auto g = conv_geometry(x.shape, kernel, y.shape, request);
  if (!g || (plan.packed && !g->is_packed_in(w.shape))) return std::nullopt;
  plan.geometry = *g;
  const auto bias = place_by_channel(request, kFused ? 3 : 2, *g);
  const auto scale = kFused ? place_by_channel(request, 2, *g) : std::optional<int>(-1);
  if (!bias || !scale) return std::nullopt;
  plan.end = {*scale, *bias, -1};
  if (kFused && x.dtype != DType::kF32) return std::nullopt;
  if (kFused && request.operands.size() > 4 && !request.operands[4].shape.empty()) {
    // It is added to tiles where they are.
    const TensorSpec& addend = request.operands[4];
    if (addend.dtype != y.dtype || addend.shape != y.shape || !addend.layout.is_channels_last() ||
        !y.layout.is_channels_last())
      return std::nullopt;
    plan.end.addend = 4;
  }
  const std::string activation = text_of(request, "activation", "none");
  if (activation == "relu")
    plan.activation = Activation::kRelu;
  else if (activation == "gelu" && kFused)
    plan.activation = Activation::kGelu;
  else if (activation != "none")
    return std::nullopt;
  return plan;
}

template <bool kFused>
std::unique_ptr<PreparedKernel> prepare_conv(const KernelRequest& request) {
  const std::optional<ConvPlan> plan = plan_conv<kFused>(request);
  if (!plan) return nullptr;
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  const ConvGeometry* const g = &plan->geometry;
  TapProductShape shape;
  shape.activation = plan->activation;
  shape.batch = g->batch;
  shape.groups = g->groups;
  shape.is_half = x.dtype == DType::kF16;
  shape.in = {g->in_channels, g->in_height, g->in_width, x.layout.is_channels_last(), shape.is_half};
  shape.out = {g->out_channels, g->out_height, g->out_width, y.layout.is_channels_last(), shape.is_half};
  shape.in_row_step = g->stride_y;
  shape.in_column_step = g->stride_x;
  shape.weight_taps = g->taps();
  shape.weight_is_packed = plan->packed;
  shape.cost = microseconds(*g, shape);
  TapPhase phase;
  for (int64_t ky = 0; ky < g->kernel_height; ++ky)
    for (int64_t kx = 0; kx < g->kernel_width; ++kx)
      phase.taps.push_back({ky * g->dilation_y - g->padding_top, kx * g->dilation_x - g->padding_left,
                            ky * g->kernel_width + kx});
  shape.phases.push_back(std::move(phase));
  return make_kernel(std::move(shape), plan->end);
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

std::optional<ConvGeometry> plan_input_gradient(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &dy = request.operands[0], &w = request.operands[1], &dx = request.results[0];
  if (!is_image(dy) || !is_image(dx) || w.dtype != dy.dtype || dx.dtype != dy.dtype) return std::nullopt;
  if (!w.layout.is_blocked()) {
    if (!w.is_contiguous()) return std::nullopt;
    return conv_geometry(dx.shape, w.shape, dy.shape, request);
  }
  if (!request.attributes.has("kernel_shape")) return std::nullopt;
  const auto g = conv_geometry(dx.shape, integers_of(request, "kernel_shape"), dy.shape, request);
  return g && g->is_packed_in(w.shape) ? g : std::nullopt;
}

std::unique_ptr<PreparedKernel> prepare_conv_input_gradient(const KernelRequest& request) {
  const auto g = plan_input_gradient(request);
  if (!g) return nullptr;
  const TensorSpec &dy = request.operands[0], &dx = request.results[0];
  TapProductShape shape;
  shape.batch = g->batch;
  shape.groups = g->groups;
  shape.is_half = dy.dtype == DType::kF16;
  shape.in = {g->out_channels, g->out_height, g->out_width, dy.layout.is_channels_last(), shape.is_half};
  shape.out = {g->in_channels, g->in_height, g->in_width, dx.layout.is_channels_last(), shape.is_half};
  shape.weight_taps = g->taps();
  shape.swaps_channels = true;
  shape.weight_is_packed = request.operands[1].layout.is_blocked();
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
  return make_kernel(std::move(shape), {});
}

template <bool kFused>
Footprint footprint_of_conv(const KernelRequest& request) {
  require_counts(request, 2, kFused ? 5 : 3, 1);
  require_sound(request);
  const std::optional<ConvPlan> plan = plan_conv<kFused>(request);
  require(plan.has_value(), "has no convolution's shapes, strides, types or attributes");
  Footprint touched = footprint_of_views(request);
  for (size_t i = 2; i < touched.operands.size(); ++i)
    if (const int at = static_cast<int>(i);
        at != plan->end.scale && at != plan->end.bias && at != plan->end.addend)
      touched.operands[i] = {};
  return touched;
}

Footprint footprint_of_input_gradient(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  require(plan_input_gradient(request).has_value(),
          "has no convolution's shapes, strides, types or attributes");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("conv", prepare_conv<false>, footprint_of_conv<false>);
IPU_REGISTER_KERNEL("fused_conv", prepare_conv<true>, footprint_of_conv<true>);
IPU_REGISTER_KERNEL("conv_input_gradient", prepare_conv_input_gradient, footprint_of_input_gradient);

}  // namespace
}  // namespace ipu::kernels
