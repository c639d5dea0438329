// Importer of ONNX's convolution, of one to three spatial dimensions.
#include <fmt/core.h>

#include "ops/convolution/node_window.h"
#include "ops/convolution/volume.h"
#include "ops/definition/popart_operators.h"

namespace ipu::ops {
namespace {

void import_conv(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *weight = call.operand(1);
  ir::Value* bias = call.has_operand(2) ? call.operand(2) : nullptr;
  const Shape &shape = x->type().shape, &filter = weight->type().shape;
  if (shape.size() < 3 || shape.size() > 5 || filter.size() != shape.size())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "shape mismatch: {} of {} with {}; both have a batch or output dimension, channels and one "
            "to three spatial dimensions.",
            call.described(), to_string(shape), to_string(filter)));
  const std::vector<int64_t> kernel(filter.begin() + 2, filter.end());
  const std::vector<int64_t> stated = call.integers("kernel_shape", kernel);
  if (!stated.empty() && stated != kernel)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has kernel_shape {}, its weight is {}.", call.described(),
                            to_string(stated), to_string(filter)));
  const Window window = read_node_window(call, kernel, std::span(shape).subspan(2));
  const Attributes attributes{{"strides", window.strides},
                              {"padding_low", window.padding_low},
                              {"padding_high", window.padding_high},
                              {"dilations", window.dilations},
                              {"groups", call.integer("group", 1)}};
  if (shape.size() == 5) return call.set_result(0, volume_convolution(call, x, weight, bias, attributes));
  call.set_result(0, bias == nullptr ? call.op("conv", {x, weight}, attributes)
                                     : call.op("conv", {x, weight, bias}, attributes));
}

struct ConvolutionOnnxImporters {
  ConvolutionOnnxImporters() { register_onnx_importer("Conv", {6}, import_conv); }
};
const ConvolutionOnnxImporters convolution_onnx_importers;

const PopartOperators convolution_popart = {{
    {"Conv", "1 11", "X:ANY W:ANY B:F", "Y:ANY", "yes",
     "dilations kernel_shape pads strides auto_pad=NOTSET|SAME_UPPER|SAME_LOWER|VALID group"},
}};

}  // namespace
}  // namespace ipu::ops
