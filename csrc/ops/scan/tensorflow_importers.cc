// Importers of TensorFlow's scans.
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

// `exclusive`: each result leaves its own element out, so it is that of the elements moved by one.
void import_scan(NodeImportCall& call, const char* kind, double neutral) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const int64_t axis = operand_axis(call, 1, shape.size());
  const bool reverse = flag(call, "reverse");
  if (flag(call, "exclusive") && shape[axis] > 0) {
    Shape low(shape.size(), 0), high = low;
    (reverse ? high : low)[axis] = 1;
    x = sliced(call, x, axis, reverse ? 1 : 0, shape[axis] - 1);
    x = call.op("pad", {x}, {{"low", low}, {"high", high}, {"value", neutral}});
  }
  if (kind == std::string_view("cumsum"))
    return call.set_result(0, call.op(kind, {x}, {{"dim", axis}, {"reverse", reverse}}));
  const auto turned = [&](ir::Value* value) {
    return reverse ? call.op("flip", {value}, {{"dims", Shape{axis}}}) : value;
  };
  call.set_result(0, turned(call.op(kind, {turned(x)}, {{"dim", axis}})));
}

struct ScanTensorflowImporters {
  ScanTensorflowImporters() {
    register_tensorflow_importer("Cumsum", [](NodeImportCall& call) { import_scan(call, "cumsum", 0.0); });
    register_tensorflow_importer("Cumprod", [](NodeImportCall& call) { import_scan(call, "cumprod", 1.0); });
  }
};
const ScanTensorflowImporters scan_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
