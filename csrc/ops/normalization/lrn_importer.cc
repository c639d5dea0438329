// Importer of ONNX's LRN: x over a power of the mean of squares of neighbouring channels.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// The window of channels is one over rows of an image with one row per channel; what lies outside counts as 0.
void import_lrn(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape shape = x->type().shape;
  const int64_t size = call.integer("size");
  if (shape.size() < 3 || size < 1)
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("shape mismatch: {} of {} with size {}; x has a batch dimension, channels and more, "
                    "and the size is positive.",
                    call.described(), to_string(shape), size));
  const DType dtype = x->type().dtype;
  const auto number = [&](double value) { return call.builder().scalar(dtype, value); };
  const int64_t rest = element_count(Shape(shape.begin() + 2, shape.end()));
  ir::Value* squares = reshaped(call, call.op("mul", {x, x}), {shape[0], 1, shape[1], rest});
  ir::Value* mean = call.op("avg_pool", {squares},
                            {{"kernel", Shape{size, 1}},
                             {"strides", Shape{1, 1}},
                             {"padding_low", Shape{(size - 1) / 2, 0}},
                             {"padding_high", Shape{size / 2, 0}},
                             {"count_include_pad", true}});
  ir::Value* base =
      call.op("add", {call.op("mul", {reshaped(call, mean, shape), number(call.real("alpha", 1e-4))}),
                      number(call.real("bias", 1.0))});
  call.set_result(0, call.op("div", {x, call.op("pow", {base, number(call.real("beta", 0.75))})}));
}

struct LrnImporter {
  LrnImporter() { register_onnx_importer("LRN", {6}, import_lrn); }
};
const LrnImporter lrn_importer;

const PopartOperators lrn_popart = {{
    {"LRN", "1", "X:F", "Y:F", "yes", "alpha beta bias size"},
}};

}  // namespace
}  // namespace ipu::ops
