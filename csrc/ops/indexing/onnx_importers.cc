// Importers of ONNX's lookups.
#include "ops/definition/node_support.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

// Slices of x along one dimension, in the shape of the indices, which count from the end when negative.
void import_gather(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *index = call.operand(1);
  const Shape from = x->type().shape, places = index->type().shape;
  const int64_t axis = axis_of(call, "axis", 0, from.size());
  ir::Value* flat = reshaped(call, index_from_front(call, index, from[axis]), {index->type().elements()});
  Shape shape(from.begin(), from.begin() + axis);
  shape.insert(shape.end(), places.begin(), places.end());
  shape.insert(shape.end(), from.begin() + axis + 1, from.end());
  call.set_result(0, reshaped(call, call.op("index_select", {x, flat}, {{"dim", axis}}), shape));
}

void import_gather_elements(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *index = call.operand(1);
  const int64_t axis = axis_of(call, "axis", 0, x->type().shape.size());
  index = index_from_front(call, index, x->type().shape[axis]);
  call.set_result(0, call.op("gather", {x, index}, {{"dim", axis}}));
}

struct Registrations {
  Registrations() {
    register_onnx_importer("Gather", {6}, import_gather);
    register_onnx_importer("GatherElements", {11}, import_gather_elements);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
