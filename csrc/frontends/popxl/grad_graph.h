// The gradient graph of one graph, whose callees have theirs. Used by differentiate.cc alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/popxl/differentiate.h"
#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {

using GradInfos = std::map<std::string, GradGraphInfo>;  // by id of the forward graph

// Is there an op that writes to its inputs? Error(kNotDifferentiable) naming graph and op.
void refuse_writes(const Graph& graph);

class GradGraphMaker {
 public:
  GradGraphMaker(Graph& forward, const GradInfos& callees) : forward_(forward), callees_(callees) {}
  // Gradients of `required`, all of which must arise, from those of `provided`. With `available`: of those of
  // `required` that arise.
  GradGraphInfo make(const std::vector<Tensor*>& provided, const std::vector<Tensor*>& required,
                     bool available, Stitch stitch);

 private:
  void find_active(const std::vector<Op*>& order, const std::vector<Tensor*>& required);
  bool is_active(const Tensor* tensor) const { return tensor != nullptr && active_.contains(tensor); }
  bool carries_gradient(const Tensor& tensor) const {
    return ipu::popxl::is_floating_point(tensor.info.dtype) || is_active(&tensor);
  }
  Tensor* gradient_of(Tensor& forward);  // nullptr: none arises
  Tensor& forward_value(Tensor& forward);
  void add_contribution(Tensor& forward, Tensor& gradient, const Op& from);
  void differentiate(Op& op);
  void add_ordinary_op(Op& op, const GradientRow& row);
  void add_gradient_op(Op& op, const GradientRow& row, const std::vector<int>& arguments);
  void differentiate_call(Op& op);
  void differentiate_branch(Op& op);
  Tensor& zeros_like(const Tensor& forward, const Op& op);
  Tensor& upstream_or_zeros(Op& op, int output);
  Op& create(const OpKind& kind, Attributes attributes, const Op& forward);
  void finish_inputs(GradGraphInfo& info, const std::vector<Op*>& order, Stitch stitch);
  bool recomputes(Stitch stitch) const;
  void recompute(const std::vector<Op*>& order, bool keep_outputs);
  Tensor& made_again(Tensor& forward, std::map<const Tensor*, Tensor*>& made);
  void copy_op(const Op& op, std::map<const Tensor*, Tensor*>& made);
  void append_outputs(const std::vector<Tensor*>& values);

  Graph& forward_;
  const GradInfos& callees_;
  Graph* graph_ = nullptr;
  std::set<const Tensor*> active_;
  std::map<const Tensor*, std::vector<Tensor*>> contributions_;
  std::map<const Tensor*, const Op*> first_contributor_;
  std::map<const Tensor*, Tensor*> provided_, gradients_;
  std::map<std::string, std::pair<Tensor*, Tensor*>> values_;  // forward id → forward tensor, its stand-in
};

}  // namespace ipu::popxl
