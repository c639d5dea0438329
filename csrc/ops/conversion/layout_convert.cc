// layout.convert: the same tensor stored otherwise. Made by passes only; the one op that changes a layout.
// packed64 of a weight [N, ...] is the matrix [elements / N, N] in panels: what linear and convolution
// kernels read.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> infer(const InferContext& c) {
  const std::optional<Layout> layout = layout_from_string(c.attributes.text("layout"));
  if (!layout)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("unknown layout: '{}' in layout.convert.", c.attributes.text("layout")));
  ir::Type type = c.operand(0);
  const size_t rank = type.shape.size();
  if ((*layout == Layout::kNhwc && rank != 3 && rank != 4) || (*layout == Layout::kPacked64 && rank < 2))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("layout does not fit: a tensor of shape {} cannot be stored as {}.",
                            to_string(type.shape), c.attributes.text("layout")));
  type.layout = *layout;
  return {type};
}

std::vector<KernelChoice> kernels(const ir::Op& op) {
  Attributes attributes = op.attributes;
  const ir::Type &from = op.operand(0)->type(), &to = op.result()->type();
  if (from.layout == Layout::kPacked64 || to.layout == Layout::kPacked64)
    attributes.set(to.shape.size() == 2 ? "transpose" : "conv_weight", true);
  return {{"convert_layout", std::move(attributes)}};
}

const OpRegistration layout_convert =
    define_op("layout.convert", "conversion")
        .doc("x, stored in another layout.")
        .operand("x", kAnything)
        .attribute("layout")
        .result("y")
        .infer(infer)
        .gradient_refused("layouts are chosen after differentiation")
        .reference([](ReferenceCall& call) { call.result().values = call.operand(0).values; })
        .kernels(kernels)
        .samples({{{ir::Type{DType::kF32, {2, 3, 4, 5}}}, {{"layout", std::string("nhwc")}}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
