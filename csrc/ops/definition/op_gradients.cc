// See op_gradients.h.
#include "ops/definition/op_gradients.h"

#include <fmt/core.h>

#include "ops/definition/decomposition.h"
#include "support/wording.h"

namespace ipu::ops {
namespace {

std::vector<ir::Value*> by_decomposition(const ir::Op& op, const std::vector<ir::Value*>& upstream,
                                         const std::vector<bool>& needs, ir::Builder& builder,
                                         const GradientBuilder::Fetch& fetch) {
  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  for (int i = 0; i < op.operand_count(); ++i)
    operands.push_back(op.operand(i) == nullptr ? nullptr : fetch(op.operand(i)));
  for (int i = 0; i < op.result_count(); ++i) types.push_back(op.result(i)->type());
  const Repeated again = repeat(builder, op.kind(), operands, op.attributes, types);
  const std::vector<ir::Value*> gradients = gradients_of_parts(
      again.parts, upstream, again.wanted(needs), builder, [](ir::Value* value) { return value; });
  erase_unused(again.parts, gradients);
  return gradients;
}

}  // namespace

void not_differentiable(const ir::Op& op, const std::string& reason) {
  std::string what = fmt::format("'{}' at {}", op.kind(), ir::to_string(op.location)), line;
  if (op.origin != nullptr && op.origin->domain.starts_with("ai.")) {  // a node of a model
    const std::string node = op.location == nullptr ? "" : op.location->module_path;
    what = fmt::format("{}::{}{}", op.origin->domain, op.origin->type, node.empty() ? "" : " '" + node + "'");
  } else {
    line = ir::user_line(op.location);
  }
  throw worded(ErrorCode::kNotDifferentiable, "no_gradient",
               "not differentiable: a gradient is needed through {what}, {why}.",
               {{"what", what}, {"why", reason}})
      .at(line);
}

std::vector<ir::Value*> gradients_of_op(const ir::Op& op, const std::vector<ir::Value*>& upstream,
                                        const std::vector<bool>& needs, ir::Builder& builder,
                                        const GradientBuilder::Fetch& fetch) {
  const OpDef* def = definition(op);
  if (def == nullptr) not_differentiable(op, "which has no definition here");
  switch (def->gradient_kind) {
    case GradientKind::kRefused:
      not_differentiable(op, "but " + def->gradient_refusal);
    case GradientKind::kNone:
      not_differentiable(op, "which has no gradient");
    case GradientKind::kZero:
      return std::vector<ir::Value*>(static_cast<size_t>(op.operand_count()), nullptr);
    case GradientKind::kDecomposition:
      return by_decomposition(op, upstream, needs, builder, fetch);
    case GradientKind::kRule:
      break;
  }
  GradientBuilder rule(op, upstream, builder, fetch);
  rule.set_needs(needs);
  def->gradient(rule);
  return rule.gradients();
}

}  // namespace ipu::ops
