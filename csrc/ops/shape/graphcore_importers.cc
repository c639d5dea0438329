// Importers of ai.graphcore's operators on shapes.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// -1, once, takes what is left; 0 keeps the size of x.
void import_reshape(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape from = x->type().shape, stated = call.integers("shape");
  Shape shape = stated;
  const auto misfit = [&] {
    node_shape_error(call, fmt::format("makes {} out of {}", to_string(stated), to_string(from)));
  };
  int64_t given = 1, open = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) {
      if (d >= from.size()) misfit();
      shape[d] = from[d];
    }
    if (shape[d] < -1 || (shape[d] == -1 && open >= 0)) misfit();
    if (shape[d] == -1) {
      open = static_cast<int64_t>(d);
    } else {
      given *= shape[d];
    }
  }
  const int64_t count = x->type().elements();
  if (open >= 0) {
    if (given == 0 || count % given != 0) misfit();
    shape[static_cast<size_t>(open)] = count / given;
  } else if (given != count) {
    misfit();
  }
  call.set_result(0, shape == from ? call.op("nop", {x}) : reshaped(call, x, shape));
}

void import_reverse(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  std::vector<int64_t> dims = call.integers("dimensions", {});
  const auto rank = std::ssize(x->type().shape);
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0 || dims[i] >= rank || std::count(dims.begin(), dims.end(), dims[i]) > 1)
      node_attribute_error(call,
                           fmt::format("has dimensions {}; each is one of the {} dimensions of x, from 0 on, "
                                       "and stands there once",
                                       to_string(dims), rank));
  std::sort(dims.begin(), dims.end());
  call.set_result(0, dims.empty() ? call.op("nop", {x}) : call.op("flip", {x}, {{"dims", dims}}));
}

// Places beyond the ends are the ends; negative ones count from the end.
void import_slice(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const std::vector<int64_t> starts = call.wide_integers("starts"), ends = call.wide_integers("ends");
  std::vector<int64_t> axes(starts.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  if (call.has("axes") && !call.integers("axes").empty()) axes = call.integers("axes");
  if (starts.size() != ends.size() || axes.size() != starts.size())
    node_attribute_error(
        call, fmt::format("has {} starts, {} ends and {} axes", starts.size(), ends.size(), axes.size()));
  Shape from(shape.size(), 0), sizes = shape;
  std::set<int64_t> named;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = node_dim(call, axes[i], shape.size()), size = shape[axis];
    if (!named.insert(axis).second)
      node_attribute_error(call, fmt::format("has axis {} twice in {}", axis, to_string(axes)));
    const auto place = [size](int64_t at) { return std::clamp(at < 0 ? at + size : at, int64_t{0}, size); };
    from[axis] = place(starts[i]);
    sizes[axis] = std::max<int64_t>(0, place(ends[i]) - from[axis]);
  }
  call.set_result(
      0, call.op("slice", {x}, {{"starts", from}, {"sizes", sizes}, {"steps", Shape(shape.size(), 1)}}));
}

void import_subsample(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const std::vector<int64_t> strides = call.integers("strides");
  if (strides.size() != shape.size())
    node_attribute_error(call, fmt::format("has {} strides for {} dimensions", strides.size(), shape.size()));
  Shape sizes = shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (strides[d] < 1)
      node_attribute_error(call, fmt::format("has strides {}; each is at least 1", to_string(strides)));
    sizes[d] = (shape[d] + strides[d] - 1) / strides[d];
  }
  call.set_result(
      0, call.op("slice", {x}, {{"starts", Shape(shape.size(), 0)}, {"sizes", sizes}, {"steps", strides}}));
}

void import_depth_to_space(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape s = x->type().shape;
  const int64_t block = call.integer("blocksize");
  const std::string mode = call.text("mode", "DCR");
  if (s.size() != 4) node_shape_error(call, fmt::format("of {}; x is [N, C, H, W]", to_string(s)));
  if (block < 1 || s[1] % (block * block) != 0)
    node_shape_error(call, fmt::format("of {} with blocksize {}: its square must divide the channels",
                                       to_string(s), block));
  if (mode != "DCR" && mode != "CRD")
    node_attribute_error(call, fmt::format("has mode \"{}\"; it is \"DCR\" or \"CRD\"", mode));
  const int64_t depth = s[1] / (block * block);
  const bool depth_first = mode == "CRD";
  x = reshaped(call, x,
               depth_first ? Shape{s[0], depth, block, block, s[2], s[3]}
                           : Shape{s[0], block, block, depth, s[2], s[3]});
  x = transposed(
      call, x, depth_first ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2});
  call.set_result(0, reshaped(call, x, {s[0], depth, s[2] * block, s[3] * block}));
}

// By PopART's own number of an element type.
DType popart_dtype(NodeImportCall& call, int64_t number) {
  switch (number) {
    case 0:
      return DType::kU8;
    case 1:
      return DType::kI8;
    case 4:
      return DType::kU16;
    case 5:
      return DType::kI16;
    case 6:
    case 7:
      return DType::kI32;
    case 8:
    case 9:
      return DType::kU32;
    case 10:
      return DType::kBool;
    case 11:
      return DType::kF32;
    case 12:
      return DType::kF16;
    default:
      node_attribute_error(call,
                           fmt::format("has data_type {}, which is no type that can be initialised", number));
  }
}

// Without an initial value it is zero too: no program may read what is not there.
void import_init(NodeImportCall& call) {
  const Shape shape = call.integers("shape");
  const int64_t how = call.integer("init_type", 0);
  for (const int64_t size : shape)
    if (size < 0) node_attribute_error(call, fmt::format("has shape {}", to_string(shape)));
  if (how != 0 && how != 1)
    node_attribute_error(call, fmt::format("has init_type {}; it is 0 (NoInit) or 1 (Zero)", how));
  call.ignore("batch_axis");
  call.set_result(0, call.builder().splat({popart_dtype(call, call.integer("data_type")), shape}, 0.0));
}

struct ShapeGraphcoreImporters {
  ShapeGraphcoreImporters() {
    register_graphcore_importer({"Reshape", "reshape", "x:NB+F8", "y:NB+F8", "yes", "args:id, shape:ints",
                                 "The same elements in another shape; -1 once, 0 copies."},
                                import_reshape);
    register_graphcore_importer({"Reverse", "reverse", "x:NB", "y=:NB", "yes", "dimensions:ints",
                                 "The elements in reverse order along these dimensions."},
                                import_reverse);
    register_graphcore_importer(
        {"Slice", "slice", "x:NB+F8", "y:NB+F8", "yes", "ends:ints, starts:ints, axes:ints", "A part of x."},
        import_slice);
    register_graphcore_importer({"Subsample", "subsample", "x:F+F8", "y:F+F8", "yes", "strides:ints",
                                 "Every stride-th element of each dimension."},
                                import_subsample);
    register_graphcore_importer(
        {"DepthToSpace", "depthtospace", "x:NB", "y:NB", "yes", "blocksize:int, mode:string(DCR|CRD)",
         "Channels [N, C, H, W] into blocks of pixels."},
        import_depth_to_space);
    register_graphcore_importer({"Init", "init", "", "y:X", "yes",
                                 "shape:ints, data_type:data type, init_type:init type, batch_axis:int=-1",
                                 "A new tensor of zeros, or whose values nobody has set."},
                                import_init);
  }
};
const ShapeGraphcoreImporters shape_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
