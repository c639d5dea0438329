// slice_scatter: a tensor with a regular region replaced; what a write through a slice becomes.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

ir::Type slice_scatter_type(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const size_t rank = x.shape.size();
  const auto& starts = per_dimension(c, "starts", rank, 0);
  const auto& sizes = per_dimension(c, "sizes", rank, 0);
  const auto& steps = per_dimension(c, "steps", rank, 1);
  require_same_dtype(c, 0, 1);
  if (c.operand(1).shape != sizes)
    shape_error("the source must have the shape of the region, " + to_string(sizes));
  for (size_t d = 0; d < rank; ++d) {
    if (sizes[d] > 0 && starts[d] + (sizes[d] - 1) * steps[d] >= x.shape[d]) {
      shape_error(fmt::format("starts={} sizes={} steps={} reach beyond dimension {}", to_string(starts),
                              to_string(sizes), to_string(steps), d));
    }
  }
  return {x.dtype, x.shape};
}

void slice_scatter_reference(ReferenceCall& call) {
  const auto& starts = call.attributes.integers("starts");
  const auto& steps = call.attributes.integers("steps");
  const Shape& shape = call.operand(0).type.shape;
  Strides strides = contiguous_strides(shape);
  int64_t start = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    start += starts[d] * strides[d];
    strides[d] *= steps[d];
  }
  std::vector<double>& result = call.result().values;
  result = call.operand(0).values;
  const std::vector<double>& source = call.operand(1).values;
  for_each_offset(call.operand(1).type.shape, strides, start,
                  [&](int64_t linear, int64_t offset) { result[offset] = source[linear]; });
}

void slice_scatter_gradient(GradientBuilder& g) {
  const Attributes region{{"starts", g.attributes().integers("starts")},
                          {"sizes", g.attributes().integers("sizes")},
                          {"steps", g.attributes().integers("steps")}};
  if (g.needs(0)) g.set(0, g.op("slice_scatter", {g.upstream(), g.zeros(g.operand_type(1))}, region));
  if (g.needs(1)) g.set(1, g.op("slice", {g.upstream()}, region));
}

void import_region(AtenImportCall& call, int64_t dim, int64_t start, int64_t size, int64_t step) {
  ir::Value* x = call.tensor("self");
  const Shape& shape = x->type().shape;
  std::vector<int64_t> starts(shape.size(), 0), sizes = shape, steps(shape.size(), 1);
  starts[dim] = start;
  sizes[dim] = size;
  steps[dim] = step;
  ir::Value* source = reshaped(call, call.cast(call.tensor("src"), x->type().dtype), sizes);
  call.set_result(
      0, call.op("slice_scatter", {x, source}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}));
}

const OpRegistration slice_scatter =
    define_op("slice_scatter", "shape")
        .doc(
            "x with elements starts[d] + i * steps[d], i < sizes[d], along every dimension d replaced by "
            "src.")
        .operand("x", kAnything)
        .operand("src", kAnything)
        .attribute("starts")
        .attribute("sizes")
        .attribute("steps")
        .result("y")
        .traits(kMayReuseFirstOperand)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{slice_scatter_type(c)}; })
        .gradient(slice_scatter_gradient)
        .reference(slice_scatter_reference)
        .work([](const ir::Op& op) { return std::vector{pass_over(op.operand(1)->type(), {""})}; })
        .from_aten(
            {"slice_scatter"},
            [](AtenImportCall& call) {
              const Shape& shape = call.tensor("self")->type().shape;
              const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : 0, shape.size());
              const int64_t length = shape[dim], step = call.has("step") ? call.clamped_integer("step") : 1;
              const auto place = [length](int64_t at) {
                return std::clamp(at < 0 ? at + length : at, int64_t{0}, length);
              };
              const int64_t start = call.has("start") ? place(call.clamped_integer("start")) : 0;
              const int64_t end = call.has("end") ? place(call.clamped_integer("end")) : length;
              import_region(call, dim, start, std::max<int64_t>(0, (end - start + step - 1) / step), step);
            })
        .from_aten({"select_scatter"},
                   [](AtenImportCall& call) {
                     const Shape& shape = call.tensor("self")->type().shape;
                     const int64_t dim = normalize_dim(call.integer("dim"), shape.size());
                     import_region(call, dim, normalize_dim(call.integer("index"), shape[dim]), 1, 1);
                   })
        .samples({{{ir::Type{DType::kF32, {5, 4}}, ir::Type{DType::kF32, {2, 4}}},
                   {{"starts", Shape{1, 0}}, {"sizes", Shape{2, 4}}, {"steps", Shape{1, 1}}}},
                  {{ir::Type{DType::kF32, {7, 3}}, ir::Type{DType::kF32, {3, 2}}},
                   {{"starts", Shape{1, 0}}, {"sizes", Shape{3, 2}}, {"steps", Shape{2, 2}}}},
                  {{ir::Type{DType::kI32, {6}}, ir::Type{DType::kI32, {1}}},
                   {{"starts", Shape{5}}, {"sizes", Shape{1}}, {"steps", Shape{1}}}}});

}  // namespace
}  // namespace ipu::ops
