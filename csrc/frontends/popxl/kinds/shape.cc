// Ops that say where elements stand: copies, and views of the same memory (the ops in place).
#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"

namespace ipu::popxl {
namespace {

// `attributes`, and of an op in place that the result lies in the operand's memory.
Attributes placed(Attributes attributes, bool in_place) {
  if (in_place) attributes.set("in_place", int64_t{0});
  return attributes;
}

// One -1 stands for what is left; 0 for the dimension of the input, unless `handle_zero` is off.
Shape wanted_shape(const LowerCall& c) {
  const Shape& from = c.shape(0);
  Shape shape = integers_or_empty(c.attributes(), "shape");
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && d < from.size() && flag(c.attributes(), "handle_zero", true)) shape[d] = from[d];
    if (shape[d] < -1 || (shape[d] == -1 && open >= 0))
      c.refuse(fmt::format("{} is no shape", ipu::to_string(shape)));
    if (shape[d] == -1)
      open = static_cast<int64_t>(d);
    else
      known *= shape[d];
  }
  if (open >= 0 && known > 0) shape[open] = element_count(from) / known;
  if (element_count(shape) != element_count(from))
    c.refuse(fmt::format("{} elements of shape {} do not make the shape {}", element_count(from),
                         ipu::to_string(from), ipu::to_string(integers_or_empty(c.attributes(), "shape"))));
  return shape;
}
auto reshape(bool in_place) {
  return [in_place](LowerCall& c) {
    c.set_output(0, c.build("reshape", {c.input(0)}, placed({{"shape", wanted_shape(c)}}, in_place)));
  };
}
const KindRegistration reshape_kind =
    define_kind("Reshape").id("ai.onnx", 5).gradient().lower(reshape(false));
const KindRegistration reshape_inplace_kind =
    define_kind("ReshapeInplace").graphcore().views({0}).lower(reshape(true));

auto transpose(bool in_place) {
  return [in_place](LowerCall& c) {
    std::vector<int64_t> permutation = integers_or_empty(c.attributes(), "perm");
    const size_t rank = c.shape(0).size();
    if (permutation.empty())
      for (size_t d = rank; d-- > 0;) permutation.push_back(static_cast<int64_t>(d));
    if (permutation.size() != rank)
      c.refuse(fmt::format("the permutation {} has {} entries for {} dimensions", ipu::to_string(permutation),
                           permutation.size(), rank));
    c.set_output(0, c.build("transpose", {c.input(0)}, placed({{"perm", permutation}}, in_place)));
  };
}
const KindRegistration transpose_kind = define_kind("Transpose").gradient().lower(transpose(false));
const KindRegistration transpose_inplace_kind =
    define_kind("TransposeInplace").graphcore().views({0}).lower(transpose(true));

auto concat(bool in_place) {
  return [in_place](LowerCall& c) {
    std::vector<ir::Value*> inputs;
    for (int i = 0; i < c.input_count(); ++i) inputs.push_back(c.input(i));
    const Attributes dim{{"dim", axis_of(c.attributes(), c.shape(0).size())}};
    c.set_output(0, c.build("concat", inputs, placed(dim, in_place)));
  };
}
// Argument i gets the part of the gradient that lies after those of the arguments before it.
void concat_gradient(LowerCall& c) {
  for (const int argument : c.op().forward->differentiated) {
    const Shape sizes = c.forward_input_type(argument).shape;
    const int64_t axis = axis_of(c.attributes(), sizes.size());
    Shape starts(sizes.size(), 0);
    for (int i = 0; i < argument; ++i) starts[axis] += c.forward_input_type(i).shape[axis];
    c.set_gradient(argument,
                   c.build("slice", {c.upstream(0)},
                           {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(sizes.size(), 1)}}));
  }
}
const KindRegistration concat_kind = define_kind("Concat")
                                         .id("ai.onnx", 11)
                                         .gradient_row({{-1}, "ConcatGrad", {}})
                                         .lower(concat(false))
                                         .lower_gradient(concat_gradient);
const KindRegistration concat_inplace_kind = define_kind("ConcatInplace")
                                                 .graphcore()
                                                 .views({-1})
                                                 .gradient_row({{-1}, "ConcatGrad", {}})
                                                 .lower(concat(true))
                                                 .lower_gradient(concat_gradient);

// starts, ends, axes and steps as ONNX has them: negative places count from the end, all are clamped.
struct Range {
  int64_t start = 0, size = 0;
  bool is_reversed = false;
};
Range range_of(const LowerCall& c, int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (step != 1 && step != -1) c.refuse(fmt::format("a step is {}; it has to be 1 or -1", step));
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (step == 1) {
    start = std::clamp<int64_t>(start, 0, extent);
    return {start, std::max<int64_t>(0, std::clamp<int64_t>(end, 0, extent) - start)};
  }
  start = std::clamp<int64_t>(start, -1, extent - 1);
  end = std::clamp<int64_t>(end, -1, extent - 1);
  return {end + 1, std::max<int64_t>(0, start - end), true};
}

auto slice(bool in_place) {
  return [in_place](LowerCall& c) {
    const std::vector<int64_t> starts = integers_or_empty(c.attributes(), "starts"),
                               ends = integers_or_empty(c.attributes(), "ends");
    std::vector<int64_t> axes = integers_or_empty(c.attributes(), "axes"),
                         steps = integers_or_empty(c.attributes(), "steps");
    if (axes.empty())
      for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    steps.resize(std::max(steps.size(), starts.size()), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
      c.refuse(fmt::format("{} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(),
                           axes.size(), steps.size()));
    Shape sizes = c.shape(0), first(sizes.size(), 0);
    std::vector<int64_t> reversed;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t axis = axis_in(axes[i], sizes.size());
      const Range range = range_of(c, starts[i], ends[i], steps[i], c.shape(0)[axis]);
      first[axis] = range.start;
      sizes[axis] = range.size;
      if (range.is_reversed) reversed.push_back(axis);
    }
    const Attributes part{{"starts", first}, {"sizes", sizes}, {"steps", Shape(sizes.size(), 1)}};
    ir::Value* y = c.build("slice", {c.input(0)}, placed(part, in_place));
    std::sort(reversed.begin(), reversed.end());
    if (!reversed.empty()) y = c.build("flip", {y}, placed({{"dims", reversed}}, in_place));
    c.set_output(0, y);
  };
}
const KindRegistration slice_kind = define_kind("Slice").id("ai.onnx", 11).gradient().lower(slice(false));
const KindRegistration slice_inplace_kind =
    define_kind("SliceInplace").graphcore().views({0}).refuses_gradient().lower(slice(true));

const KindRegistration split_kind = define_kind("Split").id("ai.onnx", 2).gradient().lower([](LowerCall& c) {
  const Shape& shape = c.shape(0);
  const int64_t axis = axis_of(c.attributes(), shape.size());
  const std::vector<int64_t> lengths = integers_or_empty(c.attributes(), "split");
  Shape starts(shape.size(), 0), sizes = shape;
  int64_t sum = 0;
  for (const int64_t length : lengths) {
    if (length < 0) c.refuse(fmt::format("a part has the length {}", length));
    sum += length;
  }
  if (sum != shape[axis])
    c.refuse(fmt::format("the parts {} have {} elements of the {} along axis {}", ipu::to_string(lengths),
                         sum, shape[axis], axis));
  for (size_t i = 0; i < lengths.size(); ++i) {
    sizes[axis] = lengths[i];
    const Attributes part{{"starts", starts}, {"sizes", sizes}, {"steps", Shape(shape.size(), 1)}};
    c.set_output(static_cast<int>(i), c.build("slice", {c.input(0)}, part));
    starts[axis] += lengths[i];
  }
});

// Every n-th element along each axis, from the first on; axes without a stride are whole.
const KindRegistration subsample_kind =
    define_kind("Subsample").graphcore().gradient().lower([](LowerCall& c) {
      const Shape& shape = c.shape(0);
      std::vector<int64_t> strides = integers_or_empty(c.attributes(), "strides");
      if (strides.size() > shape.size())
        c.refuse(fmt::format("{} strides for {} dimensions", strides.size(), shape.size()));
      strides.resize(shape.size(), 1);
      Shape sizes(shape.size());
      for (size_t d = 0; d < shape.size(); ++d) {
        if (strides[d] < 1)
          c.refuse(fmt::format("the stride of axis {} is {}; it has to be at least 1", d, strides[d]));
        sizes[d] = (shape[d] + strides[d] - 1) / strides[d];
      }
      c.set_output(0, c.build("slice", {c.input(0)},
                              {{"starts", Shape(shape.size(), 0)}, {"sizes", sizes}, {"steps", strides}}));
    });

const CreatorRegistration shape_creators = {{
    {"TransposeOp TransposeInplaceOp", "opid perm_>perm:ints settings"},
    {"ReshapeOp", "opid s>shape:ints settings handleZero=False>handle_zero:bool"},
    {"ReshapeInplaceOp", "opid shape:ints settings"},
    {"SliceOp SliceInplaceOp",
     "opid starts_>starts:ints ends_>ends:ints axes_>axes:ints steps_>steps:ints settings"},
    {"SplitOp", "opid axis_>axis:int split_>split:ints settings"},
    {"SubsampleOp", "opid strides_>strides:ints settings"},
    {"ConcatOp", "opid axis:int settings"},
    {"ConcatInplaceOp", "axis:int settings"},
}};

}  // namespace
}  // namespace ipu::popxl
