// flip: dimensions read backwards.
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

std::pair<int64_t, Strides> flip_view(const Shape& x, const std::vector<int64_t>& dims) {
  Strides strides = contiguous_strides(x);
  int64_t offset = 0;
  for (const int64_t d : dims) {
    offset += std::max<int64_t>(0, x[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return {offset, strides};
}

// The view has negative strides, which no kernel reads in place, so `strides` stays empty.
ir::ViewRule flip_rule() {
  ir::ViewRule rule;
  rule.write = [](ir::Builder& builder, const ir::Op& view, int, ir::Value*, ir::Value* contents) {
    return build(builder, "flip", {contents}, {{"dims", view.attributes.integers("dims")}});
  };
  return rule;
}

const OpRegistration flip =
    define_op("flip", "shape")
        .doc("x with the order of elements reversed along each of dims.")
        .operand("x", kAnything)
        .attribute("dims")
        .result("y")
        .infer([](const InferContext& c) {
          dimensions(c, "dims", c.operand(0).shape.size());
          return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("flip", {g.upstream()}, {{"dims", g.attributes().integers("dims")}}));
        })
        .reference([](ReferenceCall& call) {
          const auto [offset, strides] =
              flip_view(call.operand(0).type.shape, call.attributes.integers("dims"));
          read_strided(call, offset, strides);
        })
        .view(flip_rule())
        .work([](const ir::Op& op) {
          const ir::Type& x = op.operand(0)->type();
          const std::vector<int64_t>& dims = op.attributes.integers("dims");
          return std::vector{rearrangement_of(x, dims.empty() ? 1 : split_at(x.shape, dims.back()).inner)};
        })
        .from_aten({"flip"},
                   [](AtenImportCall& call) {
                     ir::Value* x = call.tensor("self");
                     std::vector<int64_t> dims =
                         normalize_dims(call.integers("dims"), x->type().shape.size());
                     std::sort(dims.begin(), dims.end());
                     call.set_result(0, dims.empty() ? x : call.op("flip", {x}, {{"dims", dims}}));
                   })
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {{"dims", Shape{1}}}},
                  {{ir::Type{DType::kF32, {2, 2, 3}}}, {{"dims", Shape{0, 2}}}},
                  {{ir::Type{DType::kI32, {4}}}, {{"dims", Shape{0}}}}});

}  // namespace
}  // namespace ipu::ops
