// expand: broadcasting made explicit; repeat and tile by reshape, expand, reshape.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

ir::Type expand_type(const InferContext& c) {
  const Shape& from = c.operand(0).shape;
  const Shape& to = c.attributes.integers("shape");
  per_dimension(c, "shape", to.size(), 0);
  bool fits = from.size() <= to.size();
  for (size_t i = 0; fits && i < from.size(); ++i) {
    const int64_t given = from[from.size() - 1 - i], wanted = to[to.size() - 1 - i];
    fits = given == wanted || given == 1;
  }
  if (!fits) {
    shape_error(fmt::format("cannot expand to {}: only dimensions of size 1 grow, and new ones come first",
                            to_string(to)));
  }
  return {c.operand(0).dtype, to};
}

ir::ViewRule expand_view() {
  ir::ViewRule rule;
  rule.write = [](ir::Builder& builder, const ir::Op& view, int, ir::Value* base,
                  ir::Value* contents) -> ir::Value* {
    if (view.result()->type().elements() != base->type().elements()) return nullptr;
    return build(builder, "reshape", {contents}, {{"shape", base->type().shape}});
  };
  rule.unwritable = "repeats elements of its operand";
  rule.strides = [](const ir::Op& view, const ir::StridedView& operand) {
    const Shape &from = operand.shape, &to = view.result()->type().shape;
    ir::StridedView result{operand.offset, to, Strides(to.size(), 0)};
    const size_t shift = to.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] == to[d + shift]) result.strides[d + shift] = operand.strides[d];
    return std::optional(result);
  };
  return rule;
}

// Dimension d of size n, r times: [n] → [1, n] → [r, n] → [r * n], for all dimensions at once.
void import_repeat(AtenImportCall& call, std::vector<int64_t> repeats) {
  ir::Value* x = call.tensor("self");
  Shape shape = x->type().shape;
  if (repeats.size() < shape.size()) repeats.insert(repeats.begin(), shape.size() - repeats.size(), 1);
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  Shape spread, grown, result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (repeats[d] != 1) {
      spread.push_back(1);
      grown.push_back(repeats[d]);
    }
    spread.push_back(shape[d]);
    grown.push_back(shape[d]);
    result.push_back(repeats[d] * shape[d]);
  }
  call.set_result(0, reshaped(call, expanded(call, reshaped(call, x, spread), grown), result));
}

const OpRegistration expand =
    define_op("expand", "shape")
        .doc("x broadcast to a shape: dimensions of size 1 repeat, new dimensions come first.")
        .operand("x", kAnything)
        .attribute("shape")
        .result("y")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{expand_type(c)}; })
        .gradient([](GradientBuilder& g) { g.set_reduced(0, g.upstream()); })
        .reference([](ReferenceCall& call) {
          read_strided(call, 0, broadcast_strides(call.operand(0).type.shape, call.result().type.shape));
        })
        .view(expand_view())
        .batch([](BatchPart& part) -> std::optional<int64_t> {
          std::vector<int64_t> shape = part.attributes.integers("shape");
          const int64_t axis = part.axis(0) + static_cast<int64_t>(shape.size()) - part.rank(0);
          shape[static_cast<size_t>(axis)] /= part.parts;
          part.attributes.set("shape", shape);
          return axis;
        })
        .kernels([](const ir::Op& op) {
          return std::vector{
              strided_copy(0, broadcast_strides(op.operand(0)->type().shape, op.result()->type().shape))};
        })
        .from_aten({"expand", "expand_as", "broadcast_to"},
                   [](AtenImportCall& call) {
                     call.set_result(0, expanded(call, call.tensor("self"), call.result_type(0).shape));
                   })
        .from_aten({"repeat"}, [](AtenImportCall& call) { import_repeat(call, call.integers("repeats")); })
        .from_aten({"tile"}, [](AtenImportCall& call) { import_repeat(call, call.integers("dims")); })
        .samples({{{ir::Type{DType::kF32, {}}}, {{"shape", Shape{2, 3}}}},
                  {{ir::Type{DType::kF32, {3, 1}}}, {{"shape", Shape{2, 3, 4}}}},
                  {{ir::Type{DType::kI32, {4}}}, {{"shape", Shape{4}}}}});

}  // namespace
}  // namespace ipu::ops
