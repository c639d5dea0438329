// Importer of ONNX's CumSum.
#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

// `exclusive`: each sum leaves its own element out, so it is that of the elements moved by one.
void import_cum_sum(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const std::vector<int64_t> axes = call.operand_integers(1, "axis");
  if (axes.size() != 1)
    throw Error(ErrorCode::kTypeMismatch,
                "shape mismatch: the axis of " + call.described() + " is one number.");
  const int64_t axis = node_dim(call, axes[0], shape.size());
  const bool reverse = call.integer("reverse", 0) == 1;
  if (call.integer("exclusive", 0) == 1 && shape[axis] > 0) {
    Shape low(shape.size(), 0), high = low;
    (reverse ? high : low)[axis] = 1;
    x = sliced(call, x, axis, reverse ? 1 : 0, shape[axis] - 1);
    x = call.op("pad", {x}, {{"low", low}, {"high", high}, {"value", 0.0}});
  }
  call.set_result(0, call.op("cumsum", {x}, {{"dim", axis}, {"reverse", reverse}}));
}

struct ScanOnnxImporters {
  ScanOnnxImporters() { register_onnx_importer("CumSum", {11}, import_cum_sum); }
};
const ScanOnnxImporters scan_onnx_importers;

const PopartOperators scan_popart = {{
    {"CumSum", "11", "x:A !axis:INDEX", "y:A", "yes", "exclusive reverse"},
}};

}  // namespace
}  // namespace ipu::ops
