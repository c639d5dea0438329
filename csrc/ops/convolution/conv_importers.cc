// Importers of torch's convolutions: padding by number or by name, input without a batch, transposed
// convolution.
#include <fmt/core.h>

#include "ops/convolution/volume.h"

namespace ipu::ops {
namespace {

// An input without a batch dimension gets one for the convolution.
template <typename Build>
void with_batch(AtenImportCall& call, size_t rank, Build build) {
  ir::Value* x = call.tensor("input");
  const Shape& shape = x->type().shape;
  if (shape.size() == rank + 2) return call.set_result(0, build(x));
  if (shape.size() != rank + 1) {
    call.unsupported(fmt::format("an input of shape {} for {} spatial dimensions", to_string(shape), rank));
  }
  Shape batched = shape;
  batched.insert(batched.begin(), 1);
  call.set_result(0, reshaped(call, build(reshaped(call, x, batched)), call.result_type(0).shape));
}

size_t spatial_rank(AtenImportCall& call) {
  const size_t rank = call.tensor("weight")->type().shape.size();
  if (rank < 3 || rank > 5) {
    call.unsupported(fmt::format("a weight of shape {}; one to three spatial dimensions are supported",
                                 to_string(call.tensor("weight")->type().shape)));
  }
  return rank - 2;
}

std::vector<int64_t> list_or(AtenImportCall& call, std::string_view name, size_t rank, int64_t fallback) {
  return call.has(name) ? expand_to_rank(call, name, rank) : std::vector<int64_t>(rank, fallback);
}

ir::Value* convolution(AtenImportCall& call, ir::Value* x, const Attributes& attributes) {
  if (x->type().shape.size() == 5)
    return volume_convolution(call, x, call.tensor("weight"), call.optional_tensor("bias"), attributes);
  if (ir::Value* bias = call.optional_tensor("bias"))
    return call.op("conv", {x, call.tensor("weight"), bias}, attributes);
  return call.op("conv", {x, call.tensor("weight")}, attributes);
}

Attributes conv_attributes(AtenImportCall& call, size_t rank, std::vector<int64_t> low,
                           std::vector<int64_t> high) {
  return {{"strides", list_or(call, "stride", rank, 1)},
          {"padding_low", std::move(low)},
          {"padding_high", std::move(high)},
          {"dilations", list_or(call, "dilation", rank, 1)},
          {"groups", call.has("groups") ? call.integer("groups") : 1}};
}

void import_conv(AtenImportCall& call) {
  const size_t rank = spatial_rank(call);
  const std::vector<int64_t> padding = list_or(call, "padding", rank, 0);
  const Attributes attributes = conv_attributes(call, rank, padding, padding);
  with_batch(call, rank, [&](ir::Value* x) { return convolution(call, x, attributes); });
}

// "valid": none; "same": as many outputs as inputs, the odd element of padding at the end.
void import_conv_named_padding(AtenImportCall& call) {
  const size_t rank = spatial_rank(call);
  const std::string padding = call.has("padding") ? call.text("padding") : "valid";
  std::vector<int64_t> low(rank, 0), high(rank, 0);
  if (padding == "same") {
    const std::vector<int64_t> dilations = list_or(call, "dilation", rank, 1),
                               strides = list_or(call, "stride", rank, 1);
    for (size_t d = 0; d < rank; ++d) {
      if (strides[d] != 1) call.unsupported(fmt::format("padding=\"same\" with a stride of {}", strides[d]));
      const int64_t total = dilations[d] * (call.tensor("weight")->type().shape[d + 2] - 1);
      low[d] = total / 2;
      high[d] = total - low[d];
    }
  } else if (padding != "valid") {
    call.unsupported(fmt::format("padding=\"{}\"", padding));
  }
  const Attributes attributes = conv_attributes(call, rank, low, high);
  with_batch(call, rank, [&](ir::Value* x) { return convolution(call, x, attributes); });
}

// The gradient of a convolution for its input, with an input of the result's shape.
void import_transposed(AtenImportCall& call) {
  const size_t rank = spatial_rank(call);
  const std::vector<int64_t> padding = list_or(call, "padding", rank, 0);
  std::vector<int64_t> high = padding, behind(rank, 0);
  Shape result = call.result_type(0).shape;
  if (result.size() == rank + 1) result.insert(result.begin(), 1);
  // Output padding of a whole stride, which dilation allows, is less padding at the end, and zeros behind it.
  const std::vector<int64_t> more = list_or(call, "output_padding", rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    if (more[d] < list_or(call, "stride", rank, 1)[d]) continue;
    high[d] = std::max<int64_t>(0, padding[d] - more[d]);
    behind[d] = std::max<int64_t>(0, more[d] - padding[d]);
  }
  Attributes attributes = conv_attributes(call, rank, padding, high);
  Shape reached = result;
  for (size_t d = 0; d < rank; ++d) reached[d + 2] -= behind[d];
  attributes.set("input_shape", reached);
  with_batch(call, rank, [&](ir::Value* x) {
    ir::Value* y = rank == 3 ? transposed_volume_convolution(call, x, call.tensor("weight"), attributes)
                             : call.op("conv_input_gradient", {x, call.tensor("weight")}, attributes);
    if (reached != result) {
      Shape zeros_behind{0, 0};
      zeros_behind.insert(zeros_behind.end(), behind.begin(), behind.end());
      y = call.op("pad", {y}, {{"low", Shape(rank + 2, 0)}, {"high", zeros_behind}, {"value", 0.0}});
    }
    ir::Value* bias = call.optional_tensor("bias");
    if (bias == nullptr) return y;
    Shape per_channel(rank + 1, 1);
    per_channel[0] = bias->type().shape[0];
    return call.op("add", {y, reshaped(call, bias, per_channel)});
  });
}

struct ConvImporters {
  ConvImporters() {
    for (const char* name : {"conv1d", "conv2d", "conv3d"}) register_aten_importer(name, import_conv);
    for (const char* name : {"conv1d.padding", "conv2d.padding", "conv3d.padding"})
      register_aten_importer(name, import_conv_named_padding);
    for (const char* name : {"conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"})
      register_aten_importer(name, import_transposed);
    for (const char* name : {"convolution", "_convolution"}) {
      register_aten_importer(name, [](AtenImportCall& call) {
        call.has("transposed") && call.boolean("transposed") ? import_transposed(call) : import_conv(call);
      });
    }
  }
};
const ConvImporters conv_importers;

}  // namespace
}  // namespace ipu::ops
