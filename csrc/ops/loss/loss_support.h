// What the losses share: the reduction argument, and finishing an elementwise loss.
#pragma once

#include <string>

#include "ops/definition/rule_support.h"

namespace ipu::ops {

// torch's reduction argument (0, 1, 2; absent: 1) as the attribute word.
std::string reduction_word(AtenImportCall& call);
// identity_loss of elementwise losses: reduced as the call says, marked as a loss.
void set_reduced_loss(AtenImportCall& call, ir::Value* elements);
// Both tensors of a two-operand loss in the dtype of the result and broadcast to one shape.
struct LossOperands {
  ir::Value *a, *b;
};
LossOperands loss_operands(AtenImportCall& call, std::string_view a = "self", std::string_view b = "target");

// {} unless the reduction is "none".
Shape loss_shape(const InferContext& context, const Shape& elements);
// Reduces elementwise losses in place of a reference's result.
void reduce_losses(ReferenceCall& call, const std::vector<double>& elements, double divisor);
// In a gradient rule: the upstream of a loss spread over its elements, divided as the reduction says.
ir::Value* spread_upstream(GradientBuilder& g, const Shape& elements);

}  // namespace ipu::ops
