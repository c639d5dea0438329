// Writing by index: Scatter, ScatterReduce, and blocks whose place is known when the program runs.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "frontends/popxl/kinds/indexing.h"
#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// The first part of `x`, of `sizes`.
ir::Value* first_part(LowerCall& c, ir::Value* x, const Shape& sizes) {
  if (x->type().shape == sizes) return x;
  return c.build("slice", {x},
                 {{"starts", Shape(sizes.size(), 0)}, {"sizes", sizes}, {"steps", Shape(sizes.size(), 1)}});
}

// An index of fewer dimensions than `values`: a vector stands along the axis, others get dimensions of 1 behind.
Shape extended(const Shape& index, size_t rank, int64_t axis) {
  Shape shape(rank, 1);
  if (index.size() == 1 && rank > 1) {
    shape[axis] = index[0];
  } else {
    std::copy(index.begin(), index.end(), shape.begin());
  }
  return shape;
}

// Dimensions that the index was extended by repeat it; in its own it may be smaller than the values, of which the
// first are then taken.
void scatter(LowerCall& c) {
  const Shape &shape = c.shape(0), &index = c.shape(1), &values = c.shape(2);
  const int64_t axis = axis_of(c.attributes(), shape.size());
  if (shape.empty()) c.refuse("a tensor without dimensions has no axis to scatter along");
  if (values.size() != shape.size() || index.size() > values.size())
    c.refuse(fmt::format("indices of shape {} and values of shape {} for data of shape {}",
                         ipu::to_string(index), ipu::to_string(values), ipu::to_string(shape)));
  const Shape wide = extended(index, values.size(), axis);
  Shape part = wide;
  for (size_t d = 0; d < wide.size(); ++d) {
    if (wide[d] > values[d])
      c.refuse(fmt::format("the indices, of shape {}, are larger than the values, of shape {}",
                           ipu::to_string(index), ipu::to_string(values)));
    if (wide[d] == 1 && index.size() < values.size()) part[d] = values[d];
  }
  ir::Value* at = c.expand(c.reshape(c.cast(c.input(1), DType::kI32), wide), part);
  c.set_output(0, c.build("scatter", {c.input(0), at, first_part(c, c.input(2), part)}, {{"dim", axis}}));
}
const KindRegistration scatter_kind = define_kind("Scatter")
                                          .id("ai.onnx", 11)
                                          .gradients({{0, "DataGrad", {in(1)}}, {2, "UpdateGrad", {in(1)}}})
                                          .lower(scatter);

// What changes nothing when it is combined.
double neutral(DType dtype, const std::string& reduction) {
  if (reduction == "sum" || reduction == "none") return 0.0;
  const bool is_max = reduction == "max";
  if (is_floating_point(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return is_max ? -infinity : infinity;
  }
  const int bits = static_cast<int>(size_in_bytes(dtype)) * 8;
  const bool is_signed = dtype == DType::kI32 || dtype == DType::kI16 || dtype == DType::kI8;
  if (is_max) return is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  return std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1.0;
}

struct Parts {
  ir::Value *start, *index,
      *data;  // of equal rank; index and data of equal shape, unless the index is a vector
  int64_t axis;
};

ir::Value* combine(LowerCall& c, const Parts& p, const std::string& reduction) {
  const Attributes dim{{"dim", p.axis}};
  if (p.index->type().shape.size() < p.data->type().shape.size())  // whole slices
    return c.build(reduction == "sum" ? "index_add" : "index_copy", {p.start, p.index, p.data}, dim);
  if (reduction == "sum") return c.build("scatter_add", {p.start, p.index, p.data}, dim);
  const std::string mode = reduction == "none" ? "assign" : reduction;
  return c.build("scatter", {p.start, p.index, p.data}, {{"dim", p.axis}, {"mode", mode}});
}

// The index as it is combined: of the shape of the data, or a vector of the slices along the axis.
ir::Value* reduction_index(LowerCall& c, int64_t axis, Shape& part) {
  const Shape &data = c.shape(0), &index = c.shape(1);
  ir::Value* at = c.cast(c.input(1), DType::kI32);
  part = data;
  if (index == data) return at;
  if (index.size() > data.size())
    c.refuse(
        fmt::format("indices of shape {} for data of shape {}", ipu::to_string(index), ipu::to_string(data)));
  const Shape wide = extended(index, data.size(), axis);
  if (!flag(c.attributes(), "enable_index_broadcast", true)) {
    for (size_t d = 0; d < wide.size(); ++d)
      if (wide[d] > data[d])
        c.refuse(fmt::format("the indices, of shape {}, are larger than the data, of shape {}",
                             ipu::to_string(index), ipu::to_string(data)));
    part = wide;
    return c.reshape(at, wide);
  }
  Shape column(data.size(), 1);
  column[axis] = data[axis];
  if (wide != column)
    c.refuse(fmt::format(
        "indices of shape {} for data of shape {}: they have the shape of the data, or are a vector "
        "along axis {}",
        ipu::to_string(index), ipu::to_string(data), axis));
  const std::string reduction = c.attributes().text("reduction");
  if (reduction == "sum" || reduction == "none") return c.reshape(at, {data[axis]});
  return c.expand(c.reshape(at, wide), data);
}

// [group, axis, others] with the first two merged: one op for all groups.
ir::Value* in_groups(LowerCall& c, Parts p, const std::string& reduction, int64_t groups) {
  const Groups order(p.data->type().shape, p.axis);
  const int64_t extent = p.start->type().shape[p.axis];
  const auto merged = [&](ir::Value* x) {
    x = c.transpose(x, order.permutation);
    Shape shape = x->type().shape;
    shape.erase(shape.begin());
    shape[0] *= groups;
    return c.reshape(x, shape);
  };
  Shape first(p.data->type().shape.size(), 1);
  first[0] = groups;
  p.index = c.build("add", {c.expand(p.index, p.data->type().shape), group_starts(c, extent, first)});
  ir::Value* start = c.transpose(p.start, order.permutation);
  const Shape split = start->type().shape;
  ir::Value* y = combine(c, {merged(p.start), merged(p.index), merged(p.data), 0}, reduction);
  return c.transpose(c.reshape(y, split), order.back);
}

void scatter_reduce(LowerCall& c) {
  if (c.shape(0).empty()) c.refuse("a tensor without dimensions has no axis to scatter along");
  const int64_t axis = axis_of(c.attributes(), c.shape(0).size()),
                groups = c.attributes().integer("group_size", 1);
  const std::string reduction = c.attributes().text("reduction");
  if (reduction != "sum" && reduction != "max" && reduction != "min" && reduction != "none")
    c.refuse(fmt::format("the reduction is '{}'; it is sum, max, min or none", reduction));
  if (groups > 1) require_groups(c.shape(0), c.shape(1), groups, axis);
  Shape part;
  ir::Value* index = reduction_index(c, axis, part);
  ir::Value* start = nullptr;
  if (c.has(2)) {
    start = c.build("nop", {c.input(2)});
  } else {
    Shape result = part;
    result[axis] = c.attributes().integer("axis_size");
    start = c.builder().splat({c.type(0).dtype, result}, neutral(c.type(0).dtype, reduction));
  }
  Parts parts{start, index, first_part(c, c.input(0), part), axis};
  if (groups <= 1) return c.set_output(0, combine(c, parts, reduction));
  if (index->type().shape.size() < part.size()) {  // a vector along the axis, for every group
    Shape column(part.size(), 1);
    column[axis] = part[axis];
    parts.index = c.reshape(index, column);
  }
  c.set_output(0, in_groups(c, parts, reduction, groups));
}
std::vector<Consumed> consumed_by_reduction(const Attributes& attributes) {
  const std::string& reduction = attributes.text("reduction");
  if (reduction == "sum") return {in(1)};
  if (reduction == "none") return {in(1), in(0)};
  return {in(1), in(0), out(0), in(2)};
}
const KindRegistration scatter_reduce_kind =
    define_kind("ScatterReduce")
        .graphcore()
        .gradient_row({{0, 2}, "ScatterReduceGrad", {}, consumed_by_reduction})
        .lower(scatter_reduce);

// The block along the first axis is read, changed along the others and put back.
ir::Value* with_block(LowerCall& c, ir::Value* x, ir::Value* update, const Block& block, size_t i) {
  ir::Value* index = block_places(c, c.input(1), i, block.sizes[i]);
  const Attributes dim{{"dim", block.axes[i]}};
  if (i + 1 < block.axes.size())
    update = with_block(c, c.build("index_select", {x, index}, dim), update, block, i + 1);
  return c.build("index_copy", {x, index, update}, dim);
}

ir::Value* updated(LowerCall& c) {
  const Block block = block_of(c);
  Shape shape = c.shape(0);
  for (size_t i = 0; i < block.axes.size(); ++i) shape[block.axes[i]] = block.sizes[i];
  ir::Value* update = c.input(2);
  if (update->type().elements() != element_count(shape))
    c.refuse(fmt::format("the update has the shape {} and the block {}", ipu::to_string(update->type().shape),
                         ipu::to_string(shape)));
  update = c.reshape(update, shape);
  return block.axes.empty() ? c.build("nop", {update}) : with_block(c, c.input(0), update, block, 0);
}

// The update may have another shape than the block while programs are built.
void infer_update(InferCall& c) { c.set_output(0, c.input(0)); }

const KindRegistration dynamic_update_kind = define_kind("DynamicUpdate")
                                                 .graphcore()
                                                 .gradient_row({{0}, "DynamicUpdateToUpdateGrad", {in(1)}})
                                                 .gradient_row({{2}, "DynamicUpdateUpdaterGrad", {in(1)}})
                                                 .infer(infer_update)
                                                 .lower([](LowerCall& c) { c.set_output(0, updated(c)); });
const KindRegistration dynamic_update_inplace_kind =
    define_kind("DynamicUpdateInplace").graphcore().modifies({0}).infer(infer_update).lower([](LowerCall& c) {
      c.overwrite(0, updated(c));
    });

const CreatorRegistration scatter_creators = {{
    {"ScatterOp",
     "opid axis_>axis:int settings available_memory_proportion_=None>available_memory_proportion:real"},
    {"ScatterReduceOp",
     "opid axis_>axis:int axis_size_>axis_size:int reduction_>reduction:reduction "
     "group_size_>group_size:int enable_index_broadcast_>enable_index_broadcast:bool "
     "available_memory_proportion_>available_memory_proportion:real settings"},
    {"DynamicUpdateOp DynamicUpdateInplaceOp",
     "opid axes_>axes:ints sizes_>sizes:ints noOverlap_>no_overlap:bool settings "
     "updateInInfo_=None>*:ignored"},
}};
const FunctionRegistration scatter_functions = {{
    {"Scatter",
     "scatter(t, indices, values, axis:int=0, available_memory_proportion:share=None) -> scatter_out",
     R"(A copy of t in which values[i, j, ...] stands at t[indices[i, j, ...], j, ...] for axis 0, and so on. Gradients go
to t and values.

Args:
    indices: of the shape of values, or smaller: the first values are then taken. With fewer axes they are repeated
        along those they lack; a vector stands along `axis`. One outside of the axis stops the run.
    values: of the rank and dtype of t.)",
     "y = ops.scatter(x, popxl.constant([2, 0]), popxl.constant([5.0, 6.0]))  # y[2] = 5, y[0] = 6"},
    {"DynamicUpdate",
     "dynamic_update(t, index, t_update, axes:ints, sizes:ints, no_overlap:bool) -> dynamic_update_out",
     R"(A copy of t with the block that `dynamic_slice` reads replaced by `t_update`. Gradients go to t and t_update.

Args:
    t_update: the block, or its elements in another shape.)",
     "y = ops.dynamic_update(x, step, row, axes=[0], sizes=[1], no_overlap=True)"},
    {"DynamicUpdateInplace",
     "dynamic_update_(t, index, t_update, axes:ints, sizes:ints, "
     "no_overlap:bool) -> dynamicupdateinplace_out",
     "As `dynamic_update`; overwrites `t`."},
}};

}  // namespace
}  // namespace ipu::popxl
