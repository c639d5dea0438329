// Importers of TensorFlow's convolutions and of their gradients, of two and three spatial dimensions. Filters are [spatial..., in, out],
// depthwise ones [H, W, channels, multiplier].
#include <fmt/core.h>

#include <functional>
#include <numeric>

#include "ops/convolution/tensorflow_window.h"
#include "ops/convolution/volume.h"

namespace ipu::ops {
namespace {

// How a filter of TensorFlow is the weight [O, C / groups, spatial...] of ours.
struct Filter {
  Shape shape;  // TensorFlow's
  bool is_depthwise;

  size_t rank() const { return shape.size() - 2; }
  int64_t in() const { return shape[rank()]; }
  int64_t out() const { return shape[rank() + 1]; }
  std::vector<int64_t> kernel() const { return {shape.begin(), shape.end() - 2}; }
  int64_t groups(int64_t channels) const {
    return is_depthwise ? in() : channels / std::max<int64_t>(in(), 1);
  }

  Shape weight_shape() const {
    Shape weight = is_depthwise ? Shape{in() * out(), 1} : Shape{out(), in()};
    weight.insert(weight.end(), shape.begin(), shape.end() - 2);
    return weight;
  }
  ir::Value* weight(NodeImportCall& call, ir::Value* filter) const {
    const auto last = static_cast<int64_t>(rank());
    std::vector<int64_t> perm = is_depthwise ? std::vector{last, last + 1} : std::vector{last + 1, last};
    for (int64_t d = 0; d < last; ++d) perm.push_back(d);
    return reshaped(call, transposed(call, filter, perm), weight_shape());
  }
  ir::Value* filter(NodeImportCall& call, ir::Value* weight) const {
    std::vector<int64_t> perm(rank());
    std::iota(perm.begin(), perm.end(), 2);
    Shape moved = is_depthwise ? Shape{in(), out()} : Shape{out(), in()};
    moved.insert(moved.end(), shape.begin(), shape.end() - 2);
    for (const int64_t d : is_depthwise ? Shape{0, 1} : Shape{1, 0}) perm.push_back(d);
    return transposed(call, reshaped(call, weight, moved), perm);
  }
};

Filter read_filter(NodeImportCall& call, Shape shape, const Shape& x, bool is_depthwise) {
  if (shape.size() != x.size() || shape.size() < 4 || shape.size() > 5)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} with filter {}.",
                                                      call.described(), to_string(x), to_string(shape)));
  return {std::move(shape), is_depthwise};
}

// x [N, C, spatial...] of shape `x`.
Attributes read_attributes(NodeImportCall& call, const Filter& filter, const Shape& x, bool is_last) {
  const Window window = read_tensorflow_window(call, filter.kernel(), std::span(x).subspan(2), is_last);
  return {{"strides", window.strides},
          {"padding_low", window.padding_low},
          {"padding_high", window.padding_high},
          {"dilations", window.dilations},
          {"groups", filter.groups(x[1])}};
}

Attributes with(Attributes attributes, std::string_view name, Shape shape) {
  attributes.set(name, std::move(shape));
  return attributes;
}

ir::Value* first(NodeImportCall& call, ir::Value* x, bool is_last) {
  return is_last ? channels_first(call, x) : x;
}
ir::Value* back(NodeImportCall& call, ir::Value* y, bool is_last) {
  return is_last ? channels_last(call, y) : y;
}

void import_conv(NodeImportCall& call, bool is_depthwise) {
  const bool is_last = is_channels_last(call);
  ir::Value* x = first(call, call.operand(0), is_last);
  const Filter filter = read_filter(call, call.operand(1)->type().shape, x->type().shape, is_depthwise);
  const Attributes attributes = read_attributes(call, filter, x->type().shape, is_last);
  ir::Value* weight = filter.weight(call, call.operand(1));
  ir::Value* y = filter.rank() == 3 ? volume_convolution(call, x, weight, nullptr, attributes)
                                    : call.op("conv", {x, weight}, attributes);
  call.set_result(0, back(call, y, is_last));
}

void import_input_gradient(NodeImportCall& call, bool is_depthwise) {
  const bool is_last = is_channels_last(call);
  Shape shape = operand_sizes(call, 0, "input_sizes");
  const Filter filter = read_filter(call, call.operand(1)->type().shape, shape, is_depthwise);
  if (is_last) shape = ir::channels_first(std::move(shape));
  const Attributes attributes = with(read_attributes(call, filter, shape, is_last), "input_shape", shape);
  ir::Value *dy = first(call, call.operand(2), is_last), *weight = filter.weight(call, call.operand(1));
  ir::Value* dx = filter.rank() == 3 ? transposed_volume_convolution(call, dy, weight, attributes)
                                     : call.op("conv_input_gradient", {dy, weight}, attributes);
  call.set_result(0, back(call, dx, is_last));
}

void import_filter_gradient(NodeImportCall& call, bool is_depthwise) {
  const bool is_last = is_channels_last(call);
  ir::Value *x = first(call, call.operand(0), is_last), *dy = first(call, call.operand(2), is_last);
  const Filter filter =
      read_filter(call, operand_sizes(call, 1, "filter_sizes"), x->type().shape, is_depthwise);
  const Attributes attributes =
      with(read_attributes(call, filter, x->type().shape, is_last), "kernel_shape", filter.weight_shape());
  ir::Value* gradient = filter.rank() == 3 ? volume_weight_gradient(call, x, dy, attributes)
                                           : call.op("conv_weight_gradient", {x, dy}, attributes);
  call.set_result(0, filter.filter(call, gradient));
}

struct ConvolutionTensorflowImporters {
  ConvolutionTensorflowImporters() {
    using Rule = void (*)(NodeImportCall&, bool);
    const auto add = [](const char* type, Rule rule, bool is_depthwise) {
      register_tensorflow_importer(type, [=](NodeImportCall& call) { rule(call, is_depthwise); });
    };
    add("Conv2D", import_conv, false);
    add("Conv3D", import_conv, false);
    add("DepthwiseConv2dNative", import_conv, true);
    add("Conv2DBackpropInput", import_input_gradient, false);
    add("Conv3DBackpropInputV2", import_input_gradient, false);
    add("DepthwiseConv2dNativeBackpropInput", import_input_gradient, true);
    add("Conv2DBackpropFilter", import_filter_gradient, false);
    add("Conv3DBackpropFilterV2", import_filter_gradient, false);
    add("DepthwiseConv2dNativeBackpropFilter", import_filter_gradient, true);
  }
};
const ConvolutionTensorflowImporters convolution_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
