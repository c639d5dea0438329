// Importers of ONNX's pooling.
#include <fmt/core.h>

#include <numeric>

#include "ops/convolution/node_window.h"
#include "ops/definition/popart_operators.h"
#include "ops/pooling/pool_support.h"

namespace ipu::ops {
namespace {

struct Pool {
  ir::Value* x;
  Window window;
  std::vector<int64_t> ceil_padding;
  Attributes attributes;
};

Pool read_pool(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const std::vector<int64_t> kernel = call.integers("kernel_shape");
  if (shape.size() < 3 || shape.size() > 5 || kernel.size() + 2 != shape.size())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("shape mismatch: {} of {} with kernel_shape {}; x has a batch dimension, channels and "
                    "one to three spatial dimensions.",
                    call.described(), to_string(shape), to_string(kernel)));
  const std::span<const int64_t> sizes = std::span(shape).subspan(2);
  Pool pool{x, read_node_window(call, kernel, sizes), {}, {}};
  Window& w = pool.window;
  if (call.version() >= 10 && call.integer("ceil_mode", 0) == 1) {
    pool.ceil_padding = ceil_padding_of(w, sizes);
    for (size_t d = 0; d < w.rank(); ++d) w.padding_high[d] += pool.ceil_padding[d];
  }
  pool.attributes = {{"kernel", w.kernel},
                     {"strides", w.strides},
                     {"padding_low", w.padding_low},
                     {"padding_high", w.padding_high}};
  return pool;
}

void import_max_pool(NodeImportCall& call) {
  Pool pool = read_pool(call);
  call.ignore("storage_order");  // of the indices, which are not given
  if (call.is_popart()) {
    if (call.integer("storage_order", 0) != 0) call.unsupported("storage_order=1");
    for (const int64_t dilation : pool.window.dilations)
      if (dilation != 1) call.unsupported(fmt::format("dilations {}", to_string(pool.window.dilations)));
  }
  pool.attributes.set("dilations", pool.window.dilations);
  call.set_result(0, pooled(call, "max_pool", pool.x, pool.attributes));
}

void import_average_pool(NodeImportCall& call) {
  Pool pool = read_pool(call);
  for (const int64_t dilation : pool.window.dilations)
    if (dilation != 1) call.unsupported(fmt::format("dilations {}", to_string(pool.window.dilations)));
  if (!pool.ceil_padding.empty()) pool.attributes.set("ceil_padding", pool.ceil_padding);
  const bool counts_padding = call.version() >= 7 && call.integer("count_include_pad", 0) == 1;
  pool.attributes.set("count_include_pad", counts_padding);
  call.set_result(0, pooled(call, "avg_pool", pool.x, pool.attributes));
}

void import_global(NodeImportCall& call, const char* kind) {
  ir::Value* x = call.operand(0);
  const size_t rank = x->type().shape.size();
  if (rank < 3)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which has no spatial dimensions.", call.described(),
                            to_string(x->type().shape)));
  std::vector<int64_t> dims(rank - 2);
  std::iota(dims.begin(), dims.end(), 2);
  call.set_result(0, call.op(kind, {x}, {{"dims", dims}, {"keep_dims", true}}));
}

struct PoolingOnnxImporters {
  PoolingOnnxImporters() {
    register_onnx_importer("MaxPool", {6}, import_max_pool);
    register_onnx_importer("AveragePool", {6}, import_average_pool);
    register_onnx_importer("GlobalAveragePool", {6},
                           [](NodeImportCall& call) { import_global(call, "reduce_mean"); });
    register_onnx_importer("GlobalMaxPool", {6},
                           [](NodeImportCall& call) { import_global(call, "reduce_max"); });
  }
};
const PoolingOnnxImporters pooling_onnx_importers;

const PopartOperators pooling_popart = {{
    {"AveragePool", "1 7 10 11", "X:F", "Y:F", "yes",
     "dilations kernel_shape pads strides auto_pad=NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode "
     "count_include_pad=0"},
    {"MaxPool", "1 8 10 11", "X:F", "Y:F", "yes",
     "dilations kernel_shape pads strides auto_pad=NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode "
     "storage_order=0"},
    {"GlobalAveragePool GlobalMaxPool", "1", "X:F", "Y:F"},
}};

}  // namespace
}  // namespace ipu::ops
