// Importers of TensorFlow's pools and of their gradients. Averages are over the elements that are there.
#include <fmt/core.h>

#include "ops/convolution/tensorflow_window.h"
#include "ops/pooling/pool_support.h"

namespace ipu::ops {
namespace {

// The window over x of shape [N, C, spatial...]. Version 2 of a type has operands ksize and strides from `operand` on.
Attributes read_pool(NodeImportCall& call, const Shape& x, bool is_last, bool is_average, int operand = -1) {
  if (x.size() < 4 || x.size() > 5)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which has not two or three spatial dimensions.",
                            call.described(), to_string(x)));
  const size_t rank = x.size() - 2;
  std::vector<int64_t> kernel = operand < 0 ? call.integers("ksize") : operand_sizes(call, operand, "ksize");
  kernel = spatial_entries(call, "ksize", std::move(kernel), rank, is_last);
  std::optional<std::vector<int64_t>> strides;
  if (operand >= 0) strides = operand_sizes(call, operand + 1, "strides");
  const Window window = read_tensorflow_window(call, kernel, std::span(x).subspan(2), is_last, strides);
  Attributes attributes{{"kernel", window.kernel},
                        {"strides", window.strides},
                        {"padding_low", window.padding_low},
                        {"padding_high", window.padding_high}};
  if (is_average)
    attributes.set("count_include_pad", false);
  else
    attributes.set("dilations", window.dilations);
  return attributes;
}

ir::Value* first(NodeImportCall& call, int operand, bool is_last) {
  return is_last ? channels_first(call, call.operand(operand)) : call.operand(operand);
}
void set_image(NodeImportCall& call, ir::Value* y, bool is_last) {
  call.set_result(0, is_last ? channels_last(call, y) : y);
}

void import_pool(NodeImportCall& call, bool is_average, int operand = -1) {
  const bool is_last = is_channels_last(call);
  ir::Value* x = first(call, 0, is_last);
  const Attributes attributes = read_pool(call, x->type().shape, is_last, is_average, operand);
  set_image(call, pooled(call, is_average ? "avg_pool" : "max_pool", x, attributes), is_last);
}

void require_rank(NodeImportCall& call, const ir::Value* x, size_t rank) {
  if (x->type().shape.size() != rank)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has a gradient {} of {} dimensions.", call.described(),
                            to_string(x->type().shape), rank));
}

void import_max_gradient(NodeImportCall& call, int operand = -1) {
  call.ignore("TInput");
  const bool is_last = is_channels_last(call);
  ir::Value *x = first(call, 0, is_last), *y = first(call, 1, is_last), *dy = first(call, 2, is_last);
  const Attributes attributes = read_pool(call, x->type().shape, is_last, false, operand);
  require_rank(call, y, x->type().shape.size());
  require_rank(call, dy, x->type().shape.size());
  set_image(call, max_pooled_gradient(call, x, y, dy, attributes), is_last);
}

void import_average_gradient(NodeImportCall& call) {
  const bool is_last = is_channels_last(call);
  Shape shape = operand_sizes(call, 0, "orig_input_shape");
  if (is_last && shape.size() > 2) shape = ir::channels_first(std::move(shape));
  Attributes attributes = read_pool(call, shape, is_last, true);
  attributes.set("input_shape", shape);
  ir::Value* dy = first(call, 1, is_last);
  require_rank(call, dy, shape.size());
  set_image(call, average_pooled_gradient(call, dy, attributes), is_last);
}

struct PoolingTensorflowImporters {
  PoolingTensorflowImporters() {
    for (const char* type : {"MaxPool", "MaxPool3D"})
      register_tensorflow_importer(type, [](NodeImportCall& call) { import_pool(call, false); });
    for (const char* type : {"AvgPool", "AvgPool3D"})
      register_tensorflow_importer(type, [](NodeImportCall& call) { import_pool(call, true); });
    register_tensorflow_importer("MaxPoolV2", [](NodeImportCall& call) { import_pool(call, false, 1); });
    for (const char* type : {"MaxPoolGrad", "MaxPool3DGrad"})
      register_tensorflow_importer(type, [](NodeImportCall& call) { import_max_gradient(call); });
    register_tensorflow_importer("MaxPoolGradV2", [](NodeImportCall& call) { import_max_gradient(call, 3); });
    for (const char* type : {"AvgPoolGrad", "AvgPool3DGrad"})
      register_tensorflow_importer(type, import_average_gradient);
  }
};
const PoolingTensorflowImporters pooling_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
