// slice: a regular region of a tensor. All operators that cut a tensor in pieces are imported as slices.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

struct Region {
  const std::vector<int64_t>&starts, &sizes, &steps;
};

ir::Type slice_type(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const size_t rank = x.shape.size();
  const Region r{per_dimension(c, "starts", rank, 0), per_dimension(c, "sizes", rank, 0),
                 per_dimension(c, "steps", rank, 1)};
  for (size_t d = 0; d < rank; ++d) {
    if (r.sizes[d] > 0 && r.starts[d] + (r.sizes[d] - 1) * r.steps[d] >= x.shape[d]) {
      shape_error(fmt::format("starts={} sizes={} steps={} reach beyond dimension {}", to_string(r.starts),
                              to_string(r.sizes), to_string(r.steps), d));
    }
  }
  return {x.dtype, r.sizes};
}

std::pair<int64_t, Strides> slice_view(const Shape& x, const Attributes& attributes) {
  const Region r{attributes.integers("starts"), attributes.integers("sizes"), attributes.integers("steps")};
  Strides strides = contiguous_strides(x);
  int64_t offset = 0;
  for (size_t d = 0; d < x.size(); ++d) {
    offset += r.starts[d] * strides[d];
    strides[d] *= r.steps[d];
  }
  return {offset, strides};
}

ir::ViewRule slice_rule() {
  ir::ViewRule rule;
  rule.write = [](ir::Builder& builder, const ir::Op& view, int, ir::Value* base, ir::Value* contents) {
    const Attributes& a = view.attributes;
    return build(
        builder, "slice_scatter", {base, contents},
        {{"starts", a.integers("starts")}, {"sizes", a.integers("sizes")}, {"steps", a.integers("steps")}});
  };
  rule.strides = [](const ir::Op& view, const ir::StridedView& operand) {
    const Region r{view.attributes.integers("starts"), view.attributes.integers("sizes"),
                   view.attributes.integers("steps")};
    ir::StridedView result = operand;
    result.shape = r.sizes;
    for (size_t d = 0; d < r.sizes.size(); ++d) {
      result.offset += r.starts[d] * operand.strides[d];
      result.strides[d] *= r.steps[d];
    }
    if (element_count(r.sizes) == 0) result.offset = operand.offset;  // a place that is there
    return std::optional(result);
  };
  return rule;
}

void slice_gradient(GradientBuilder& g) {
  const Region r{g.attributes().integers("starts"), g.attributes().integers("sizes"),
                 g.attributes().integers("steps")};
  const ir::Type& x = g.operand_type(0);
  const bool dense = std::all_of(r.steps.begin(), r.steps.end(), [](int64_t s) { return s == 1; });
  if (!dense) {
    g.set(0, g.op("slice_scatter", {g.zeros(x), g.upstream()},
                  {{"starts", r.starts}, {"sizes", r.sizes}, {"steps", r.steps}}));
    return;
  }
  std::vector<int64_t> high(x.shape.size());
  for (size_t d = 0; d < high.size(); ++d) high[d] = x.shape[d] - r.starts[d] - r.sizes[d];
  g.set(0, g.op("pad", {g.upstream()}, {{"low", r.starts}, {"high", high}, {"value", 0.0}}));
}

// Python's slice: ends are counted from the back when negative and cut to the tensor.
void import_slice(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const Shape& shape = x->type().shape;
  const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : 0, shape.size());
  const int64_t length = shape[dim], step = call.has("step") ? call.clamped_integer("step") : 1;
  const auto place = [length](int64_t at) {
    return std::clamp(at < 0 ? at + length : at, int64_t{0}, length);
  };
  const int64_t start = call.has("start") ? place(call.clamped_integer("start")) : 0;
  const int64_t end = call.has("end") ? place(call.clamped_integer("end")) : length;
  if (step < 1) call.unsupported(fmt::format("a slice with step {}; use torch.flip to reverse", step));
  const int64_t size = end <= start ? 0 : (end - start + step - 1) / step;  // none are a tensor, too
  call.set_result(0, sliced(call, x, dim, start, size, step));
}

// Python's slice of some dimensions, backwards too; attributes before version 10, operands from then on.
void import_onnx_slice(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const size_t rank = x->type().shape.size();
  std::vector<int64_t> starts, ends, axes, steps;
  const auto clamped = [&](std::string_view name) {
    std::vector<int64_t> list = call.wide_integers(name);
    for (int64_t& at : list) at = std::clamp<int64_t>(at, INT32_MIN, INT32_MAX);
    return list;
  };
  if (call.version() < 10) {
    starts = clamped("starts");
    ends = clamped("ends");
    axes = call.integers("axes", {});
  } else {
    starts = call.clamped_operand_integers(1, "starts");
    ends = call.clamped_operand_integers(2, "ends");
    if (call.has_operand(3)) axes = call.operand_integers(3, "axes");
    if (call.has_operand(4)) steps = call.clamped_operand_integers(4, "steps");
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    shape_error(fmt::format("{} has {} starts, {} ends, {} axes and {} steps", call.described(),
                            starts.size(), ends.size(), axes.size(), steps.size()));
  for (int64_t& axis : axes) axis = node_dim(call, axis, rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t length = x->type().shape[axes[i]];
    const int64_t step = std::max<int64_t>(steps[i], -INT32_MAX);  // the width of a step has 32 bits
    if (step == 0) call.unsupported("a slice with step 0");
    // A backward slice starts at the last element and ends before the first.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + length : at, low, high); };
    const int64_t start = place(starts[i]), end = place(ends[i]);
    const int64_t size =
        std::max<int64_t>(0, (step > 0 ? end - start + step - 1 : start - end - step - 1) / std::abs(step));
    const int64_t first = step > 0 || size == 0 ? start : start + (size - 1) * step;
    x = sliced(call, x, axes[i], std::max<int64_t>(first, 0), size, std::abs(step));
    if (step < 0 && size > 1) x = call.op("flip", {x}, {{"dims", Shape{axes[i]}}});
  }
  call.set_result(0, x);
}

void import_select(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  const int64_t index = normalize_dim(call.integer("index"), x->type().shape[dim]);
  call.set_result(0, reshaped(call, sliced(call, x, dim, index, 1), call.result_type(0).shape));
}

void import_narrow(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t dim = normalize_dim(call.integer("dim"), x->type().shape.size());
  int64_t start = call.integer("start");
  if (start < 0) start += x->type().shape[dim];
  call.set_result(0, sliced(call, x, dim, start, call.integer("length")));
}

// split, chunk: consecutive pieces; their sizes are in the types of the results.
void import_pieces(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : 0, x->type().shape.size());
  int64_t start = 0;
  for (int i = 0; i < call.result_count(); ++i) {
    const int64_t size = call.result_type(i).shape[dim];
    call.set_result(i, sliced(call, x, dim, start, size));
    start += size;
  }
}

void import_unbind(AtenImportCall& call) {
  ir::Value* x = call.tensor("self");
  const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : 0, x->type().shape.size());
  for (int i = 0; i < call.result_count(); ++i) {
    call.set_result(i, reshaped(call, sliced(call, x, dim, i, 1), call.result_type(i).shape));
  }
}

const OpRegistration slice =
    define_op("slice", "shape")
        .doc("Elements starts[d] + i * steps[d], i < sizes[d], along every dimension d of x.")
        .operand("x", kAnything)
        .attribute("starts")
        .attribute("sizes")
        .attribute("steps")
        .result("y")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{slice_type(c)}; })
        .gradient(slice_gradient)
        .reference([](ReferenceCall& call) {
          const auto [offset, strides] = slice_view(call.operand(0).type.shape, call.attributes);
          read_strided(call, offset, strides);
        })
        .view(slice_rule())
        .batch([](BatchPart& part) -> std::optional<int64_t> {
          const auto axis = static_cast<size_t>(part.axis(0));
          std::vector<int64_t> sizes = part.attributes.integers("sizes");
          if (sizes[axis] != part.shape(0)[axis] || part.attributes.integers("steps")[axis] != 1)
            return std::nullopt;
          sizes[axis] /= part.parts;
          part.attributes.set("sizes", sizes);
          return part.axis(0);
        })
        .kernels([](const ir::Op& op) {
          auto [offset, strides] = slice_view(op.operand(0)->type().shape, op.attributes);
          return std::vector{strided_copy(offset, std::move(strides))};
        })
        .from_aten({"slice.Tensor"}, import_slice)
        .from_onnx("Slice", {6}, import_onnx_slice)
        .from_aten({"select.int"}, import_select)
        .from_aten({"narrow"}, import_narrow)
        .from_aten({"split.Tensor", "split.sizes", "split_with_sizes", "chunk", "unsafe_chunk",
                    "unsafe_split.Tensor", "unsafe_split_with_sizes", "tensor_split.sections"},
                   import_pieces)
        .from_aten({"unbind.int"}, import_unbind)
        .samples({{{ir::Type{DType::kF32, {5, 4}}},
                   {{"starts", Shape{1, 0}}, {"sizes", Shape{3, 4}}, {"steps", Shape{1, 1}}}},
                  {{ir::Type{DType::kF32, {7, 5}}},
                   {{"starts", Shape{1, 1}}, {"sizes", Shape{3, 2}}, {"steps", Shape{2, 3}}}},
                  {{ir::Type{DType::kI32, {6}}},
                   {{"starts", Shape{5}}, {"sizes", Shape{1}}, {"steps", Shape{1}}}}});

const PopartOperators slice_popart = {{
    {"Slice", "1 10 11", "data:ANY !starts:INDEX !ends:INDEX !axes:INDEX !steps:INDEX", "output:ANY", "yes",
     "axes ends starts"},
}};

}  // namespace
}  // namespace ipu::ops
