// Importers of ONNX's lookups.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

// Slices of x along one dimension, in the shape of the indices, which count from the end when negative.
void import_gather(NodeImportCall& call) {
  require_integers(call, 1, "indices");
  ir::Value *x = call.operand(0), *index = call.operand(1);
  const Shape from = x->type().shape, places = index->type().shape;
  const int64_t axis = axis_of(call, "axis", 0, from.size());
  ir::Value* flat = nullptr;
  if (call.is_popart()) {
    // Places that are not there give any element, and no error.
    flat = call.op("clamp", {call.cast(index, DType::kI32)},
                   {{"min", 0.0}, {"max", static_cast<double>(std::max<int64_t>(from[axis] - 1, 0))}});
  } else {
    flat = index_from_front(call, index, from[axis]);
  }
  flat = reshaped(call, flat, {index->type().elements()});
  Shape shape(from.begin(), from.begin() + axis);
  shape.insert(shape.end(), places.begin(), places.end());
  shape.insert(shape.end(), from.begin() + axis + 1, from.end());
  call.set_result(0, reshaped(call, call.op("index_select", {x, flat}, {{"dim", axis}}), shape));
}

void import_gather_elements(NodeImportCall& call) {
  require_integers(call, 1, "indices");
  ir::Value *x = call.operand(0), *index = call.operand(1);
  const int64_t axis = axis_of(call, "axis", 0, x->type().shape.size());
  index = index_from_front(call, index, x->type().shape[axis]);
  call.set_result(0, call.op("gather", {x, index}, {{"dim", axis}}));
}

// PopART uses the part of larger updates that lies inside the shape of the indices.
ir::Value* used_updates(NodeImportCall& call, ir::Value* updates, const Shape& indices) {
  const Shape& given = updates->type().shape;
  bool is_larger = call.is_popart() && given.size() == indices.size();
  for (size_t d = 0; is_larger && d < indices.size(); ++d) is_larger = given[d] >= indices[d];
  for (size_t d = 0; is_larger && d < indices.size(); ++d)
    if (updates->type().shape[d] != indices[d])
      updates = sliced(call, updates, static_cast<int64_t>(d), 0, indices[d]);
  return updates;
}

void import_scatter(NodeImportCall& call) {
  require_integers(call, 1, "indices");
  ir::Value *x = call.operand(0), *index = call.operand(1), *updates = call.operand(2);
  const int64_t axis = axis_of(call, "axis", 0, x->type().shape.size());
  updates = used_updates(call, updates, index->type().shape);
  if (index->type().shape != updates->type().shape)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has indices {} and updates {}; {}.", call.described(),
                            to_string(index->type().shape), to_string(updates->type().shape),
                            call.is_popart() ? "updates are as large or larger" : "they are equal"));
  index = index_from_front(call, index, x->type().shape[axis]);
  call.set_result(0, call.op("scatter", {x, index, updates}, {{"dim", axis}}));
}

// A number of any type, without its fraction.
std::vector<int64_t> depth_of(NodeImportCall& call) {
  const ConstantPtr stated = call.constant(1);
  if (stated == nullptr || !is_floating_point(stated->dtype)) return call.operand_integers(1, "depth");
  std::vector<int64_t> depth;
  for (const double number : reals_of(*stated)) {
    const bool is_size = number >= 0 && number < 2147483648.0;
    depth.push_back(is_size ? static_cast<int64_t>(number) : -1);
  }
  return depth;
}

// `depth` elements for each index: the second of `values` at the index, the first elsewhere. An index that is
// not there gives none; from version 11 on negative ones count from the end.
void import_one_hot(NodeImportCall& call) {
  ir::Value *index = call.cast(call.operand(0), DType::kI32), *values = call.operand(2);
  const std::vector<int64_t> depth = depth_of(call);
  if (depth.size() != 1 || depth[0] < 1 || values->type().shape != Shape{2})
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("shape mismatch: {} has depth {} and values {}; depth is one positive number, and "
                    "there are two values.",
                    call.described(), to_string(depth), to_string(values->type().shape)));
  Shape shape = index->type().shape, row(shape.size() + 1, 1);
  const int64_t axis = axis_of(call, "axis", -1, shape.size() + 1);
  const auto number = [&](double value) { return call.builder().scalar(DType::kI32, value); };
  if (call.version() >= 11) {
    ir::Value* from_end = call.op("add", {index, number(static_cast<double>(depth[0]))});
    index = call.op("where", {call.op("less", {index, number(0.0)}), from_end, index});
  }
  shape.insert(shape.begin() + axis, 1);
  row[axis] = depth[0];
  ir::Value* places = call.op(
      "iota", {}, {{"shape", row}, {"dim", axis}, {"dtype", DType::kI32}, {"start", 0.0}, {"step", 1.0}});
  const auto value = [&](int64_t i) { return reshaped(call, sliced(call, values, 0, i, 1), {}); };
  call.set_result(
      0, call.op("where", {call.op("equal", {reshaped(call, index, shape), places}), value(1), value(0)}));
}

struct IndexingOnnxImporters {
  IndexingOnnxImporters() {
    register_onnx_importer("Gather", {6}, import_gather);
    register_onnx_importer("Scatter", {9, 11}, import_scatter);
    register_onnx_importer("ScatterElements", {11, 11}, import_scatter);
    register_onnx_importer("OneHot", {9, 11}, import_one_hot);
    register_onnx_importer("GatherElements", {11}, import_gather_elements);
  }
};
const IndexingOnnxImporters indexing_onnx_importers;

}  // namespace
}  // namespace ipu::ops
