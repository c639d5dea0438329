// What a gradient rule sees: the forward op, the gradients that arrived, and a builder in the backward graph.
// Rules read forward values with operand()/result(); autodiff decides how they reach the backward graph.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/definition/build.h"

namespace ipu::ops {

class GradientBuilder {
 public:
  using Fetch = std::function<ir::Value*(ir::Value* forward_value)>;  // forward value → its stand-in in the
                                                                      // backward graph

  GradientBuilder(const ir::Op& forward, std::vector<ir::Value*> upstream, ir::Builder& builder, Fetch fetch);

  const ir::Op& forward() const { return forward_; }
  const Attributes& attributes() const { return attributes_; }  // defaults filled in
  ir::Builder& builder() { return builder_; }

  bool has_operand(int i) const;
  ir::Value* operand(int i);     // the forward value, usable in the backward graph
  ir::Value* result(int i = 0);  // likewise
  const ir::Type& operand_type(int i) const;
  const ir::Type& result_type(int i = 0) const;
  bool needs(int operand) const;  // is this operand's gradient wanted? Rules may skip work when not
  ir::Value* upstream(int result = 0) const;   // gradient of a result; nullptr: no gradient reached it
  void set(int operand, ir::Value* gradient);  // same shape and dtype as the operand
  // The gradient of a broadcast operand: sums `gradient` over what was broadcast, then set().
  void set_reduced(int operand, ir::Value* gradient);

  // Any defined op; then short names for the common ones (types follow from the rules).
  ir::Value* op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                Attributes attributes = {});
  ir::Value* add(ir::Value* a, ir::Value* b);
  ir::Value* sub(ir::Value* a, ir::Value* b);
  ir::Value* mul(ir::Value* a, ir::Value* b);
  ir::Value* div(ir::Value* a, ir::Value* b);
  ir::Value* neg(ir::Value* a);
  ir::Value* scale(ir::Value* a, double factor);
  ir::Value* add_scalar(ir::Value* a, double addend);
  ir::Value* where(ir::Value* condition, ir::Value* a, ir::Value* b);
  ir::Value* scalar_like(ir::Value* like, double value);  // 0-d constant of the same dtype
  ir::Value* zeros(const ir::Type& type);
  ir::Value* reshape(ir::Value* a, Shape shape);
  ir::Value* expand(ir::Value* a, Shape shape);
  ir::Value* sum(ir::Value* a, std::vector<int64_t> dims, bool keep_dims);
  ir::Value* cast(ir::Value* a, DType dtype);

  // For autodiff.
  void set_needs(std::vector<bool> needs) { needs_ = std::move(needs); }
  const std::vector<ir::Value*>& gradients() const { return gradients_; }

 private:
  const ir::Op& forward_;
  Attributes attributes_;
  std::vector<ir::Value*> upstream_, gradients_;
  std::vector<bool> needs_;
  ir::Builder& builder_;
  Fetch fetch_;
};

}  // namespace ipu::ops
