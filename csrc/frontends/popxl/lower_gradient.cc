#include "frontends/popxl/lower_gradient.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "autodiff/in_graph.h"
#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

using ir::Value;
using From = GradientInput::From;

// A graph of its own in which the forward op is built again and differentiated, so that the cost does not depend on
// where the gradient op stands. Its inputs are those of the gradient op; forward values that this does not consume
// are placeholders.
class Workshop {
 public:
  explicit Workshop(LowerCall& call)
      : call_(call),
        forward_(*call.op().forward),
        graph_(call.builder().module()->add_graph("gradient")),
        builder_(graph_),
        again_(call.op(), *forward_.kind, forward_.attributes, builder_) {
    builder_.settings = call.builder().settings;
    builder_.location = call.builder().location;
    builder_.origin = call.builder().origin;
    for (const auto& [i, value] : call.inputs()) {
      arguments_.push_back(value);
      inputs_[i] = graph_->add_input(value->type());
    }
  }

  // Outputs of the gradient op, as values of the graph of the call.
  std::vector<Value*> run() {
    build_forward();
    std::vector<std::pair<Value*, Value*>> provided;
    for (const auto& [i, value] : again_.outputs())
      if (Value* upstream = find(From::kGradOut, i); upstream != nullptr)
        provided.emplace_back(value, upstream);
    std::vector<Value*> required;
    bool through_integers = false;
    for (const int i : forward_.differentiated) {
      required.push_back(forward_inputs_.at(i));
      through_integers = through_integers || !is_floating_point(forward_.inputs.at(i).dtype);
    }
    std::vector<Value*> gradients =
        autodiff::gradients_in_graph(builder_, provided, required, nullptr, through_integers);
    for (size_t k = 0; k < gradients.size(); ++k) {
      if (gradients[k] == nullptr)
        gradients[k] = builder_.splat(call_.forward_input_type(forward_.differentiated[k]), 0.0);
      graph_->append_output(gradients[k]);
    }
    for (const auto& [i, value] : again_.outputs())
      if (Value* given = find(From::kOut, i); given != nullptr && given != value)
        value->replace_all_uses_with(given);
    erase_unused();
    for (const Value* placeholder : placeholders_)
      IPU_CHECK(placeholder == nullptr,
                fmt::format("{} reads a forward value that its row does not list", call_.op().kind().type));
    ir::Graph* target = call_.builder().graph();
    std::vector<Value*> results = target->take_over(*graph_, arguments_);
    call_.builder().module()->erase_graph(graph_);
    return results;
  }

 private:
  void build_forward() {
    for (const auto& [i, info] : forward_.inputs) {
      const ir::Type type{on_device(info.dtype).value(), info.shape};
      Value* consumed = find(From::kIn, i);
      // A value of its own for each input, also where one tensor is read twice: gradients tell them apart.
      Value* value = consumed != nullptr ? again_.build("nop", {consumed}) : builder_.splat(type, 0.0);
      forward_inputs_[i] = value;
      if (consumed == nullptr) placeholders_.push_back(value);
      again_.set_input(i, value);
    }
    forward_.kind->lower(again_);
  }

  void erase_unused() {
    for (ir::Op *op = graph_->ops().empty() ? nullptr : graph_->ops().back().get(), *before = nullptr;
         op != nullptr; op = before) {
      before = graph_->previous(op);
      bool used = op->result_count() == 0;
      for (int r = 0; r < op->result_count(); ++r) used = used || !op->result(r)->is_unused();
      if (used) continue;
      for (int r = 0; r < op->result_count(); ++r)
        std::replace(placeholders_.begin(), placeholders_.end(), op->result(r), static_cast<Value*>(nullptr));
      graph_->erase(op);
    }
  }

  Value* find(From from, int index) const {
    for (const auto& [input, source] : forward_.consumed)
      if (source.from == from && source.forward_index == index) {
        const auto found = inputs_.find(input);
        return found == inputs_.end() ? nullptr : found->second;
      }
    return nullptr;
  }

  LowerCall& call_;
  const ForwardOp& forward_;
  ir::Graph* graph_;
  ir::Builder builder_;
  LowerCall again_;
  std::vector<Value*> arguments_;
  std::map<int, Value*> inputs_;          // of the gradient op
  std::map<int, Value*> forward_inputs_;  // of the forward op
  std::vector<Value*> placeholders_;      // nullptr: erased
};

}  // namespace

void lower_gradient(LowerCall& call) {
  const ForwardOp& forward = *call.op().forward;
  if (forward.kind->differentiable == Differentiable::kZero) {
    for (const int i : forward.differentiated)
      call.set_gradient(i, call.builder().splat(call.forward_input_type(i), 0.0));
    return;
  }
  if (forward.kind->lower_gradient) return forward.kind->lower_gradient(call);
  const std::vector<Value*> gradients = Workshop(call).run();
  for (size_t k = 0; k < gradients.size(); ++k) call.set_gradient(forward.differentiated[k], gradients[k]);
}

}  // namespace ipu::popxl
