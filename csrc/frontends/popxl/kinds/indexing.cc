// Reading by index: gathers, one-hot rows, and blocks whose place is known when the program runs.
#include "frontends/popxl/kinds/indexing.h"

#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kTypeMismatch, what); }

}  // namespace

Groups::Groups(const Shape& shape, int64_t axis) {
  permutation = {0, axis};
  for (size_t d = 1; d < shape.size(); ++d)
    if (static_cast<int64_t>(d) != axis) permutation.push_back(static_cast<int64_t>(d));
  back.resize(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) back[permutation[i]] = static_cast<int64_t>(i);
}

ir::Value* group_starts(LowerCall& c, int64_t extent, const Shape& shape) {
  return c.build(
      "iota", {},
      {{"shape", shape}, {"dim", int64_t{0}}, {"dtype", DType::kI32}, {"step", static_cast<double>(extent)}});
}

void require_groups(const Shape& data, const Shape& index, int64_t groups, int64_t axis) {
  if (axis < 1) refuse(fmt::format("axis {} with {} groups, which are axis 0", axis, groups));
  for (const Shape& shape : {data, index})
    if (shape.empty() || shape[0] != groups)
      refuse(fmt::format("a shape of {} with {} groups, which are axis 0", ipu::to_string(shape), groups));
}

ir::Value* block_places(LowerCall& c, ir::Value* index, size_t i, int64_t size) {
  ir::Value* flat = c.reshape(c.cast(index, DType::kI32), {index->type().elements()});
  ir::Value* start =
      c.build("slice", {flat},
              {{"starts", Shape{static_cast<int64_t>(i)}}, {"sizes", Shape{1}}, {"steps", Shape{1}}});
  ir::Value* from_start = c.build("iota", {}, {{"shape", Shape{size}}});
  return c.build("add", {start, from_start});
}

Block block_of(const LowerCall& c) {
  Block block{integers_or_empty(c.attributes(), "axes"), integers_or_empty(c.attributes(), "sizes")};
  const Shape& shape = c.shape(0);
  if (block.axes.size() != block.sizes.size())
    c.refuse(fmt::format("{} axes and {} sizes", block.axes.size(), block.sizes.size()));
  if (c.type(1).elements() != static_cast<int64_t>(block.axes.size()))
    c.refuse(fmt::format("the index has {} elements for {} axes", c.type(1).elements(), block.axes.size()));
  for (size_t i = 0; i < block.axes.size(); ++i) {
    block.axes[i] = axis_in(block.axes[i], shape.size());
    if (block.sizes[i] < 0 || block.sizes[i] > shape[block.axes[i]])
      c.refuse(fmt::format("a block of {} along axis {} of {}", block.sizes[i], block.axes[i],
                           shape[block.axes[i]]));
  }
  return block;
}

namespace {

// Indices are bit patterns of uint32: one outside [0, extent) takes an unspecified row, or with
// zero_out_of_range zeros.
struct Places {
  ir::Value* inside;    // i32, of one dimension
  ir::Value* is_valid;  // nullptr: nobody asks
};
Places places(LowerCall& c, ir::Value* index, int64_t extent) {
  index = c.cast(index, DType::kI32);
  ir::Value *zero = c.scalar(DType::kI32, 0), *last = c.scalar(DType::kI32, static_cast<double>(extent - 1));
  ir::Value* inside = c.build("minimum", {c.build("maximum", {index, zero}), last});
  ir::Value* is_valid =
      flag(c.attributes(), "zero_out_of_range", false) ? c.build("equal", {index, inside}) : nullptr;
  return {inside, is_valid};
}

// The rows, zeros where the index is not valid. No op chooses between 8-bit floats: these take a row of zeros that
// is put behind the data.
ir::Value* rows(LowerCall& c, ir::Value* data, const Places& at, int64_t dim) {
  const ir::Type& type = data->type();
  ir::Value* index = c.reshape(at.inside, {at.inside->type().elements()});
  const bool is_float8 = type.dtype == DType::kF8_143 || type.dtype == DType::kF8_152;
  if (at.is_valid != nullptr && is_float8) {
    ir::Type row = type;
    row.shape[dim] = 1;
    data = c.build("concat", {data, c.builder().splat(row, 0.0)}, {{"dim", dim}});
    ir::Value* end = c.scalar(DType::kI32, static_cast<double>(data->type().shape[dim] - 1));
    index = c.build("where", {c.reshape(at.is_valid, index->type().shape), index, end});
  }
  ir::Value* y = c.build("index_select", {data, index}, {{"dim", dim}});
  if (at.is_valid == nullptr || is_float8) return y;
  Shape column(y->type().shape.size(), 1);
  column[dim] = index->type().elements();
  return c.build("where", {c.reshape(at.is_valid, column), y, c.scalar_like(y, 0.0)});
}

// What a gather reads, and its result: the axis becomes the dimensions of the index, without the group.
struct Gathered {
  int64_t axis, groups, extent;
  Shape result;
};
Gathered gathered(const Attributes& attributes, const Shape& shape, const Shape& index) {
  if (shape.empty()) refuse("a tensor without dimensions has no axis to gather along");
  Gathered g{axis_of(attributes, shape.size()), attributes.integer("group_size", 1), 0, shape};
  g.extent = shape[g.axis];
  if (g.extent == 0) refuse(fmt::format("axis {} has no elements", g.axis));
  if (g.groups > 1) require_groups(shape, index, g.groups, g.axis);
  const auto place = g.result.erase(g.result.begin() + g.axis);
  g.result.insert(place, index.begin() + (g.groups > 1 ? 1 : 0), index.end());
  return g;
}

// Without building the many ops of the IR.
void infer_gather(InferCall& c) {
  const TensorInfo &x = c.input(0), &index = c.input(1);
  if (!on_device(x.dtype) || !on_device(index.dtype))
    refuse(fmt::format("the device has no {} or no {}", to_string(x.dtype), to_string(index.dtype)));
  c.set_output(0, {x.dtype, gathered(c.attributes(), x.shape, index.shape).result, {}});
}

void gather(LowerCall& c) {
  const Shape shape = c.shape(0), index_shape = c.shape(1);
  const Gathered g = gathered(c.attributes(), shape, index_shape);
  const auto [axis, groups, extent, result] = g;
  const Places at = places(c, c.input(1), extent);
  if (groups <= 1) return c.set_output(0, c.reshape(rows(c, c.input(0), at, axis), result));
  // [group, axis, others] with the first two merged: one gather for all groups.
  const Groups order(shape, axis);
  ir::Value* data = c.transpose(c.input(0), order.permutation);
  Shape merged = data->type().shape;
  merged.erase(merged.begin());
  merged[0] *= groups;
  Shape starts(index_shape.size(), 1);
  starts[0] = groups;
  Places all = at;
  all.inside = c.build("add", {at.inside, group_starts(c, extent, starts)});
  ir::Value* y = rows(c, c.reshape(data, merged), all, 0);
  // [group, index, others] -> others before the axis come before the index.
  Shape parts = data->type().shape;
  parts[1] = element_count(index_shape) / groups;
  y = c.transpose(c.reshape(y, parts), order.back);
  c.set_output(0, c.reshape(y, result));
}

const KindRegistration gather_kind =
    define_kind("Gather").gradient({in(1)}).infer(infer_gather).lower(gather);
const KindRegistration tied_gather_kind = define_kind("PopartTiedGather")
                                              .class_name("TiedGatherOp")
                                              .graphcore()
                                              .gradient({in(1)})
                                              .infer(infer_gather)
                                              .lower(gather);

// values[1] where the index is the number of the class, values[0] elsewhere.
const KindRegistration one_hot_kind =
    define_kind("OneHot")
        .class_name("OnehotOp")
        .id("ai.onnx", 9)
        .gradient_row(
            {.arguments = {2}, .type = "OneHotGrad", .consumed = {in(0)}, .class_name = "OneHotGradOp"})
        .lower([](LowerCall& c) {
          const size_t rank = c.shape(0).size();
          const int64_t axis = axis_in(c.attributes().integer("axis", -1), rank + 1);
          int64_t classes = 0;
          const Tensor* count = c.op().forward == nullptr ? c.op().input(1) : nullptr;
          if (c.attributes().has("num_classes")) {
            classes = c.attributes().integer("num_classes");
          } else if (c.op().forward != nullptr) {
            classes = c.op().forward->outputs.at(0).shape[axis];
          } else if (count != nullptr && count->constant != nullptr) {
            classes = first_integer(*count->constant);
          } else {
            c.refuse("the number of classes (input 1) has to be known while the program is built");
          }
          if (c.type(2).elements() != 2)
            c.refuse(fmt::format("the values have {} elements; they are [off, on]", c.type(2).elements()));
          Shape wide = c.shape(0), classes_shape(rank + 1, 1);
          wide.insert(wide.begin() + axis, 1);
          classes_shape[axis] = classes;
          ir::Value* numbers = c.build("iota", {}, {{"shape", classes_shape}, {"dim", axis}});
          ir::Value* is_on = c.build("equal", {c.reshape(c.cast(c.input(0), DType::kI32), wide), numbers});
          ir::Value* values = c.reshape(c.input(2), {2});
          const auto value = [&](int64_t i) {
            ir::Value* one =
                c.build("slice", {values}, {{"starts", Shape{i}}, {"sizes", Shape{1}}, {"steps", Shape{1}}});
            return c.reshape(one, {});
          };
          ir::Value* y = c.build("where", {is_on, value(1), value(0)});
          if (c.op().forward != nullptr) return c.set_output(0, y);
          c.set_output(0, y, c.info(2).dtype);
        });

const KindRegistration dynamic_slice_kind =
    define_kind("DynamicSlice")
        .graphcore()
        .gradient_row({{0}, "DynamicSlicePadGrad", {in(1)}})
        .lower([](LowerCall& c) {
          const Block block = block_of(c);
          ir::Value* y = c.input(0);
          for (size_t i = 0; i < block.axes.size(); ++i)
            y = c.build("index_select", {y, block_places(c, c.input(1), i, block.sizes[i])},
                        {{"dim", block.axes[i]}});
          c.set_output(0, y == c.input(0) ? c.build("nop", {y}) : y);
        });

}  // namespace

int64_t first_integer(const ConstantData& data) {
  const auto read = [&]<class T>(T value) -> int64_t {
    if (data.bytes.size() < sizeof(T)) return 0;
    std::copy_n(data.bytes.begin(), sizeof(T), reinterpret_cast<std::byte*>(&value));
    return static_cast<int64_t>(value);
  };
  switch (data.dtype) {
    case DType::kI32:
      return read(int32_t{});
    case DType::kU32:
      return read(uint32_t{});
    case DType::kI64:
      return read(int64_t{});
    case DType::kI16:
      return read(int16_t{});
    case DType::kU16:
      return read(uint16_t{});
    case DType::kI8:
      return read(int8_t{});
    case DType::kU8:
    case DType::kBool:
      return read(uint8_t{});
    case DType::kF32:
      return read(float{});
    default:
      return 0;
  }
}

const CreatorRegistration indexing_creators = {{
    {"OnehotOp", "opid axis_>axis:int settings"},
    {"GatherOp",
     "opid axis_>axis:int group_size_>group_size:int settings "
     "available_memory_proportion_=None>available_memory_proportion:real "
     "zeroOutOfRangeIndices_=False>zero_out_of_range:bool"},
    {"TiedGatherOp",
     "axis_>axis:int settings available_memory_proportion_=None>available_memory_proportion:real "
     "zeroOutOfRangeIndices_=False>zero_out_of_range:bool"},
    {"DynamicSliceOp", "opid axes_>axes:ints sizes_>sizes:ints noOverlap_>no_overlap:bool settings"},
}};
const FunctionRegistration indexing_functions = {{
    {"Gather",
     "gather(t, indices, axis:int=0, available_memory_proportion:share=None, "
     "zero_OOR:bool>zero_out_of_range=False) -> gather_out; group_size=1",
     R"(Slices of t along `axis` by number, as numpy.take: t.shape[:axis] + indices.shape + t.shape[axis + 1:]. Gradients
go to t.

Args:
    indices: numbers from 0 on; for one outside of the axis the result is not specified.
    zero_OOR: gives zeros there.)",
     "rows = ops.gather(table, ids)  # (100, 8) and (4,) give (4, 8)"},
    {"Gather",
     "groupedgather(t, indices, axis:int=0, group_size:int=1, available_memory_proportion:share=None, "
     "zero_OOR:bool>zero_out_of_range=False) -> gather_out",
     R"(As `gather`, in each of `group_size` groups by itself: axis 0 of t and indices is the group.

Raises:
    popart.popart_exception: axis 0 is not the group, or is gathered along, with more than one group.)",
     "rows = ops.groupedgather(tables, ids, axis=1, group_size=2)  # (2, 100, 8) and (2, 4) give (2, 4, 8)"},
    {"PopartTiedGather",
     "tied_gather(t, indices, axis:int=0, available_memory_proportion:share=None, "
     "zero_OOR:bool>zero_out_of_range=False) -> tiedgather_out; group_size=1",
     "As `gather`, of a table that a matmul reads too.", "rows = ops.tied_gather(embedding, ids)"},
    {"DynamicSlice", "dynamic_slice(t, index, axes:ints, sizes:ints, no_overlap:bool) -> dynamic_slice_out",
     R"(The block of t with `sizes` along `axes`, whole along the others, that begins at an index known when the program
runs. Gradients go to t.

Args:
    index: uint32 or int32, one element for each of `axes`. A block that leaves t stops the run.
    no_overlap: promises that blocks of other calls are disjoint. It changes nothing here.)",
     "batch = ops.dynamic_slice(data, step, axes=[0], sizes=[1], no_overlap=True)"},
}};

}  // namespace ipu::popxl
