// Importers of ai.graphcore's reading and writing of blocks whose place is known when the program runs, of its gather in
// groups and of buckets. (ScatterReduce: graphcore_scatter.cc; sequences: graphcore_sequences.cc.)
#include <fmt/core.h>

#include <algorithm>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// --- blocks

// Part of operand 0: `sizes` along `axes`, from operand 1 on.
struct Block {
  std::vector<int64_t> axes, sizes;
};

Block read_block(NodeImportCall& call) {
  Block block{call.integers("axes"), call.integers("sizes")};
  const Shape& shape = call.operand(0)->type().shape;
  require_integer(call, 1);
  const int64_t given = call.operand(1)->type().elements();
  if (block.axes.size() != block.sizes.size() || given != std::ssize(block.axes))
    node_shape_error(call,
                     fmt::format("has {} axes, {} sizes and an offset of {} elements; these are one each",
                                 block.axes.size(), block.sizes.size(), given));
  for (size_t i = 0; i < block.axes.size(); ++i) {
    int64_t& axis = block.axes[i];
    axis = node_dim(call, axis, shape.size());
    if (std::find(block.axes.begin(), block.axes.begin() + static_cast<int64_t>(i), axis) !=
        block.axes.begin() + static_cast<int64_t>(i))
      node_attribute_error(call, fmt::format("names axis {} twice", axis));
    if (block.sizes[i] < 0 || block.sizes[i] > shape[axis])
      node_shape_error(
          call, fmt::format("takes {} elements along axis {} of {}", block.sizes[i], axis, to_string(shape)));
  }
  return block;
}

Shape shape_of(NodeImportCall& call, const Block& block) {
  Shape shape = call.operand(0)->type().shape;
  for (size_t i = 0; i < block.axes.size(); ++i) shape[block.axes[i]] = block.sizes[i];
  return shape;
}

// The places along axis i of the block.
ir::Value* places_of(NodeImportCall& call, const Block& block, size_t i) {
  ir::Value* start = call.cast(one_element(call, call.operand(1), static_cast<int64_t>(i)), DType::kI32);
  return call.op("add",
                 {start, call.op("iota", {}, {{"shape", Shape{block.sizes[i]}}, {"dtype", DType::kI32}})});
}

ir::Value* read_at(NodeImportCall& call, const Block& block) {
  ir::Value* y = call.operand(0);
  for (size_t i = 0; i < block.axes.size(); ++i)
    y = call.op("index_select", {y, places_of(call, block, i)}, {{"dim", block.axes[i]}});
  return y;
}

// The block along axis i of x is read, changed along the others and put back.
ir::Value* with_block(NodeImportCall& call, ir::Value* x, ir::Value* update, const Block& block, size_t i) {
  ir::Value* places = places_of(call, block, i);
  const Attributes dim{{"dim", block.axes[i]}};
  if (i + 1 < block.axes.size())
    update = with_block(call, call.op("index_select", {x, places}, dim), update, block, i + 1);
  return call.op("index_copy", {x, places, update}, dim);
}

void set_with_block(NodeImportCall& call, const Block& block, ir::Value* update) {
  ir::Value* x = call.operand(0);
  if (block.axes.empty()) return call.set_result(0, call.op("nop", {update}));
  call.set_result(0, with_block(call, x, update, block, 0));
}

void require_size_of_block(NodeImportCall& call, const Shape& block) {
  const ir::Type& given = call.operand(2)->type();
  if (given.elements() == element_count(block)) return;
  node_shape_error(call, fmt::format("has {} as operand 2, and the block {} has {} elements",
                                     to_string(given.shape), to_string(block), element_count(block)));
}

// Operand 2, of as many elements as the block.
ir::Value* update_of(NodeImportCall& call, const Block& block) {
  require_equal_dtypes(call, 0, 2);
  ir::Value* update = call.operand(2);
  const Shape shape = shape_of(call, block);
  require_size_of_block(call, shape);
  return reshaped(call, update, shape);
}

// Operand 2, which the result is to lie in, says its shape and nothing of its values.
void import_dynamic_slice(NodeImportCall& call) {
  const Block block = read_block(call);
  flag_of(call, "noOverlap", false);
  ir::Value* y = read_at(call, block);
  if (call.has_operand(2)) {
    require_size_of_block(call, y->type().shape);
    y = reshaped(call, y, call.operand(2)->type().shape);
  }
  call.set_result(0, block.axes.empty() ? call.op("nop", {y}) : y);
}

void import_dynamic_update(NodeImportCall& call) {
  const Block block = read_block(call);
  flag_of(call, "noOverlap", false);
  set_with_block(call, block, update_of(call, block));
}

void import_dynamic_add(NodeImportCall& call) {
  const Block block = read_block(call);
  set_with_block(call, block, call.op("add", {read_at(call, block), update_of(call, block)}));
}

void import_dynamic_zero(NodeImportCall& call) {
  const Block block = read_block(call);
  set_with_block(call, block,
                 call.builder().splat({call.operand(0)->type().dtype, shape_of(call, block)}, 0.0));
}

// --- gather

// The axis becomes the dimensions of the index. With groups these are dimension 0 of data and index, each of which reads
// its own data: one gather of rows numbered over all groups.
void import_grouped_gather(NodeImportCall& call) {
  require_integer(call, 1);
  ir::Value *x = call.operand(0), *index = call.cast(call.operand(1), DType::kI32);
  const Shape shape = x->type().shape, at = index->type().shape;
  const int64_t groups = call.integer("group_size", 1);
  if (shape.empty()) node_shape_error(call, "of a tensor without dimensions");
  const int64_t axis = axis_of(call, "axis", 0, shape.size());
  if (groups < 1) node_attribute_error(call, fmt::format("has group_size {}; it is at least 1", groups));
  if (groups > 1 && axis == 0)
    node_attribute_error(call, fmt::format("has axis 0 with {} groups, which axis 0 is", groups));
  if (groups > 1 && (at.empty() || shape[0] != groups || at[0] != groups))
    node_shape_error(call, fmt::format("of data {} and indices {} with {} groups, which dimension 0 is",
                                       to_string(shape), to_string(at), groups));
  Shape result = shape;
  result.insert(result.erase(result.begin() + axis), at.begin() + (groups > 1 ? 1 : 0), at.end());
  const int64_t count = index->type().elements();
  if (groups == 1) {
    ir::Value* y = call.op("index_select", {x, reshaped(call, index, {count})}, {{"dim", axis}});
    return call.set_result(0, reshaped(call, y, result));
  }
  std::vector<int64_t> perm{0, axis}, back(shape.size());
  for (int64_t d = 1; d < std::ssize(shape); ++d)
    if (d != axis) perm.push_back(d);
  for (size_t i = 0; i < perm.size(); ++i) back[perm[i]] = static_cast<int64_t>(i);
  ir::Value* data = transposed(call, x, perm);
  Shape parts = data->type().shape, merged(parts.begin() + 1, parts.end());
  merged[0] *= groups;
  Shape first(at.size(), 1);
  first[0] = groups;
  ir::Value* starts = call.op("iota", {},
                              {{"shape", first},
                               {"dim", int64_t{0}},
                               {"dtype", DType::kI32},
                               {"step", static_cast<double>(shape[axis])}});
  ir::Value* rows = reshaped(call, call.op("add", {index, starts}), {count});
  ir::Value* y = call.op("index_select", {reshaped(call, data, merged), rows}, {{"dim", int64_t{0}}});
  parts[1] = count / groups;
  call.set_result(0, reshaped(call, transposed(call, reshaped(call, y, parts), back), result));
}

// --- values without gradients

void import_bucketize(NodeImportCall& call) {
  require_equal_dtypes(call, 0, 1);
  const Shape& boundaries = call.operand(1)->type().shape;
  if (boundaries.size() != 1)
    node_shape_error(call, fmt::format("has boundaries {}; they have one dimension", to_string(boundaries)));
  call.set_result(0, call.op("bucketize", {call.operand(0), call.operand(1)},
                             {{"right", flag_of(call, "right", false)}}));
}

struct IndexingGraphcoreImporters {
  IndexingGraphcoreImporters() {
    register_graphcore_importer(
        {"DynamicSlice", "dynamicslice", "x:X+F8 offset:WHOLE into?:X+F8", "y:X+F8", "yes",
         "axes:ints, sizes:ints, noOverlap:flag=0", "[x, offset]: the part of x at the offset."},
        import_dynamic_slice);
    register_graphcore_importer(
        {"DynamicUpdate", "dynamicupdate", "x:X offset:WHOLE slice:X", "y=:X", "yes",
         "axes:ints, sizes:ints, noOverlap:flag=0", "[x, offset, s]: x with s at the offset."},
        import_dynamic_update);
    register_graphcore_importer({"DynamicAdd", "dynamicadd", "x:X offset:WHOLE slice:X", "y=:X", "yes",
                                 "axes:ints, sizes:ints", "[x, offset, s]: x with s added at the offset."},
                                import_dynamic_add);
    register_graphcore_importer({"DynamicZero", "dynamiczero", "x:X offset:WHOLE", "y=:X", "yes",
                                 "axes:ints, sizes:ints", "[x, offset]: x with zeros at the offset."},
                                import_dynamic_zero);
    register_graphcore_importer(
        {"GroupedGather", "groupedgather", "data:NB+F8 indices:INDEX", "out:NB+F8", "yes",
         "axis:int=0, group_size:int=1", "[data, indices]: Gather in each group of the first dimension."},
        import_grouped_gather);
    register_graphcore_importer(
        {"Bucketize", "bucketize", "x:I+F boundaries:I+F", "out:INT32", "none", "right:flag=0",
         "INT32 places of the elements of x between ascending boundaries."},
        import_bucketize);
  }
};
const IndexingGraphcoreImporters indexing_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
