// What nll_loss and cross_entropy share: x [N, C, ...] with one class number per target [N, ...].
#pragma once

#include <utility>

#include "ops/definition/node_import_call.h"
#include "ops/loss/loss_support.h"

namespace ipu::ops {

// Types of `loss(x, target)` and `loss_gradient(dy, x, target)`.
ir::Type class_loss_type(const InferContext& context);
ir::Type class_gradient_type(const InferContext& context);

// Parts of a gradient(dy, x, target): which elements of x belong to the target's class, which targets count,
// and the gradient that reaches the loss of each; all as [N, 1, ...] or broadcast to x.
struct ClassGradientParts {
  ir::Value *is_class, *counts, *upstream;
};
ClassGradientParts class_gradient_parts(Composer& c);

// Operands "self" and "target" of torch's call: batched, target narrowed; refuses probabilities.
std::pair<ir::Value*, ir::Value*> class_operands(AtenImportCall& call);

// The loss of an op `kind` (cross_entropy, nll_loss) with its attributes. With a weight [C] each target counts as much
// as its class weighs, in the mean too, and what label_smoothing spreads is weighted by class; nullptr: no weights.
ir::Value* class_loss(ImportCall& call, std::string_view kind, ir::Value* x, ir::Value* target,
                      ir::Value* weight, Attributes attributes);

// Attributes ignore_index and reduction of ONNX's losses by class.
Attributes onnx_class_loss(NodeImportCall& call);

// The targets of a reference call. Throws Error(kExecution) for a class that does not exist.
class ClassTargets {
 public:
  ClassTargets(const ReferenceCall& call, int x, int target);

  int64_t size() const { return static_cast<int64_t>(target_.size()); }
  int64_t classes() const { return split_.size; }
  bool ignored(int64_t i) const { return static_cast<int64_t>(target_[i]) == ignore_index_; }
  int64_t target(int64_t i) const { return static_cast<int64_t>(target_[i]); }
  int64_t counted() const { return counted_; }
  int64_t element(int64_t i, int64_t klass) const {  // of x: row i's entry for a class
    return (i / split_.inner * split_.size + klass) * split_.inner + i % split_.inner;
  }
  // Gradient that reaches row i's loss; operand 0 of the call is dy.
  double upstream(const ReferenceCall& call, int64_t i) const;

 private:
  const std::vector<double>& target_;
  Split3 split_;
  int64_t ignore_index_, counted_ = 0;
};

}  // namespace ipu::ops
