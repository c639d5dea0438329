// layout.convert: the same tensor stored otherwise. Made by passes only; the one op that changes a layout.
// A weight [N, ...] in panels is the matrix [elements / N, N] that linear and convolution kernels read.
#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"
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
  const bool is_weight =
      rank >= 2 && rank <= Layout::kMaxRank && *layout == Layout::panels_of_weight(type.shape);
  if (!layout->is_plain() && !is_weight &&
      !(layout->is_channels_last() && layout->fits(type.shape) && rank <= 4))
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("layout does not fit: a tensor of shape {} cannot be stored as {}.",
                            to_string(type.shape), c.attributes.text("layout")));
  type.layout = *layout;
  return {type};
}

std::vector<KernelChoice> kernels(const ir::Op& op) {
  Attributes attributes = op.attributes;
  const ir::Type &from = op.operand(0)->type(), &to = op.result()->type();
  if (from.layout.is_blocked() || to.layout.is_blocked())
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
        .work(no_work())  // of the host that emulates
        .samples({{{ir::Type{DType::kF32, {2, 3, 4, 5}}}, {{"layout", std::string("acdb")}}, -1, 1, {}}});

}  // namespace
}  // namespace ipu::ops
