// What the losses share: the reduction argument, finishing an elementwise loss, and the compounds among them.
#pragma once

#include <functional>
#include <string>

#include "ops/definition/composer.h"
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

// A loss that stands for elementwise losses and their reduction (attribute `reduction`): `elements` makes the
// former from the operands, `shape` says theirs. Operands are of one dtype; samples are the caller's.
OpDefBuilder composed_loss(std::string name, std::function<ir::Value*(Composer&)> elements,
                           std::function<Shape(const InferContext&)> shape);
Shape broadcast_of_operands(const InferContext& context);  // the usual `shape`
// Samples of a composed loss on these operands: each reduction.
std::vector<Sample> loss_samples(std::vector<std::optional<ir::Type>> operands, Attributes attributes = {},
                                 double low = -1.0, double high = 1.0);

// Imports a composed loss: its operands, in one dtype, and what its attributes are beside the reduction.
void import_loss(AtenImportCall& call, std::string_view kind, const std::vector<ir::Value*>& operands,
                 Attributes attributes = {});

// {} unless the reduction is "none".
Shape loss_shape(const InferContext& context, const Shape& elements);
// Reduces elementwise losses in place of a reference's result.
void reduce_losses(ReferenceCall& call, const std::vector<double>& elements, double divisor);
// In a gradient rule: the upstream of a loss spread over its elements, divided as the reduction says.
ir::Value* spread_upstream(GradientBuilder& g, const Shape& elements);

}  // namespace ipu::ops
