// Importers of TensorFlow's TopKV2 and InTopKV2.
#include <fmt/core.h>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

void import_top_k(NodeImportCall& call) {
  call.ignore("sorted");  // the values come sorted anyway
  call.ignore("Tk");
  if (call.has("index_type")) tensorflow_dtype(call, "index_type");
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const int64_t k = operand_integer(call, 1, "k"), dim = std::ssize(shape) - 1;
  if (dim < 0 || k < 0 || k > shape.back())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("value out of range: {} takes {} elements of the last dimension of {}.",
                            call.described(), k, to_string(shape)));
  ir::Value* values = call.op("sort", {x}, {{"dim", dim}, {"descending", true}, {"count", k}});
  call.set_result(0, values);
  call.set_result(1, values->producer()->result(1));
}

// Whether fewer than k predictions [B, C] of a row are larger than that of its target; a row is false unless all of it and the place are there.
void import_in_top_k(NodeImportCall& call) {
  const Term x = term(call, 0);
  ir::Value* target = call.cast(call.operand(1), DType::kI32);
  const Shape shape = x.value()->type().shape;
  if (shape.size() != 2 || shape[1] == 0)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}, which is no rows of classes.", call.described(),
                            to_string(shape)));
  const int64_t k = operand_integer(call, 2, "k");
  const Term place{call, reshaped(call, target, {shape[0], 1})};
  const Term inside = place.op("clamp", {{"min", 0.0}, {"max", static_cast<double>(shape[1] - 1)}});
  const Term own{call, call.op("gather", {x.value(), inside.value()}, {{"dim", int64_t{1}}})};
  const Attributes rows{{"dims", Shape{1}}, {"keep_dims", true}};
  const Term larger = (x > own).cast(DType::kI32).op("reduce_sum", rows);
  const Term finite = (absolute(x) < std::numeric_limits<double>::infinity()).op("reduce_all", rows);
  const Term result = (larger < static_cast<double>(k)) && finite && (inside == place);
  call.set_result(0, reshaped(call, result.value(), {shape[0]}));
}

struct SortingTensorflowImporters {
  SortingTensorflowImporters() {
    register_tensorflow_importer("TopKV2", import_top_k);
    register_tensorflow_importer("InTopKV2", import_in_top_k);
  }
};
const SortingTensorflowImporters sorting_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
