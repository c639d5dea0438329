// Importers of ONNX's lookups.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/indexing/node_slices.h"

namespace ipu::ops {
namespace {

// Slices of x along one dimension, in the shape of the indices, which count from the end when negative.
void import_gather(NodeImportCall& call) {
  require_integers(call, 1, "indices");
  ir::Value *x = call.operand(0), *index = call.operand(1);
  const Shape from = x->type().shape, places = index->type().shape;
  const int64_t axis = axis_of(call, "axis", 0, from.size());
  const bool from_end = check_places(call, 1, from[axis]);
  ir::Value* flat = nullptr;
  if (call.is_popart()) {
    // Places that are not there give any element, and no error.
    flat = call.cast(index, DType::kI32);
    if (from_end) {
      const auto number = [&](int64_t value) {
        return call.builder().scalar(DType::kI32, static_cast<double>(value));
      };
      flat = call.op("where",
                     {call.op("less", {flat, number(0)}), call.op("add", {flat, number(from[axis])}), flat});
    }
    flat = call.op("clamp", {flat},
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
  check_places(call, 1, x->type().shape[axis]);
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

// x with `updates` put, or combined with what is there (from version 16 on), at places along `dim`.
ir::Value* scattered(NodeImportCall& call, ir::Value* x, ir::Value* index, ir::Value* updates, int64_t dim) {
  const std::string word = call.version() >= 16 ? call.text("reduction", "none") : "none";
  if (word == "add") return call.op("scatter_add", {x, index, updates}, {{"dim", dim}});
  const std::string mode = word == "none" ? "assign" : word == "mul" ? "multiply" : word;
  if (mode != "assign" && mode != "multiply" && mode != "max" && mode != "min")
    call.unsupported("reduction '" + word + "'");
  return call.op("scatter", {x, index, updates}, {{"dim", dim}, {"mode", mode}});
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
  check_places(call, 1, x->type().shape[axis]);
  index = index_from_front(call, index, x->type().shape[axis]);
  call.set_result(0, scattered(call, x, index, updates, axis));
}

void import_gather_nd(NodeImportCall& call) {
  const int64_t batch = call.version() >= 12 ? call.integer("batch_dims", 0) : 0;
  const Slices s = named_slices(call, call.operand(0), 1, static_cast<size_t>(std::max<int64_t>(batch, 0)));
  call.set_result(0, gathered(call, s));
}

void import_scatter_nd(NodeImportCall& call) {
  const Slices s = named_slices(call, call.operand(0), 1, 0);
  ir::Value* updates = call.operand(2);
  Shape shape = s.named, rows = s.rest, column(s.rest.size() + 1, 1);
  shape.insert(shape.end(), s.rest.begin(), s.rest.end());
  if (updates->type().shape != shape)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has updates {}; with these indices they are {}.",
                            call.described(), to_string(updates->type().shape), to_string(shape)));
  rows.insert(rows.begin(), element_count(s.named));
  column[0] = rows[0];
  ir::Value* index = expanded(call, reshaped(call, s.index, column), rows);
  ir::Value* y = scattered(call, s.x, index, reshaped(call, updates, rows), 0);
  call.set_result(0, reshaped(call, y, call.operand(0)->type().shape));
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
    register_onnx_importer("ScatterElements", {11}, import_scatter);
    register_onnx_importer("OneHot", {9}, import_one_hot);
    register_onnx_importer("GatherElements", {11}, import_gather_elements);
    register_onnx_importer("GatherND", {11}, import_gather_nd);
    register_onnx_importer("ScatterND", {11}, import_scatter_nd);
  }
};
const IndexingOnnxImporters indexing_onnx_importers;

const PopartOperators indexing_popart = {{
    {"Gather", "1 11", "data:ANY indices:INDEX", "output:ANY", "yes", "axis"},
    {"Scatter", "9 11", "data:NB indices:INDEX updates:NB", "output:NB", "yes", "axis"},
    {"ScatterElements", "11", "data:NB indices:INDEX updates:NB", "output:NB", "yes", "axis"},
    {"OneHot", "9 11", "indices:N !depth:N values:NB", "output:NB", "yes", "axis"},
}};

}  // namespace
}  // namespace ipu::ops
