// Importer of ONNX's TopK: k is an attribute before version 10 and an operand from then on.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

void import_top_k(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const int64_t axis = axis_of(call, "axis", -1, shape.size());
  const std::vector<int64_t> k =
      call.version() < 10 ? std::vector<int64_t>{call.integer("k")} : call.operand_integers(1, "K");
  const bool largest = call.version() < 11 || call.integer("largest", 1) == 1;
  call.ignore("sorted");  // the values come sorted anyway
  if (k.size() != 1 || k[0] < 0 || k[0] > shape[axis])
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("value out of range: {} takes {} of the {} elements along dimension {} of {}.",
                            call.described(), to_string(k), shape[axis], axis, to_string(shape)));
  ir::Value* values = call.op("sort", {x}, {{"dim", axis}, {"descending", largest}, {"count", k[0]}});
  call.set_result(0, values);
  call.set_result(1, values->producer()->result(1));
}

struct SortingOnnxImporters {
  SortingOnnxImporters() { register_onnx_importer("TopK", {6}, import_top_k); }
};
const SortingOnnxImporters sorting_onnx_importers;

const PopartOperators sorting_popart = {{
    {"TopK", "1 10 11", "X:N !K:COUNT", "Values:N Indices:INDEX", "yes", "axis k largest sorted"},
}};

}  // namespace
}  // namespace ipu::ops
