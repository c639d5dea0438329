// How forward values reach a gradient graph: as inputs, for which the forward graph may get more outputs, or made again.
#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/grad_graph.h"
#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

using TensorSet = std::set<const Tensor*>;

TensorSet set_of(const std::vector<Tensor*>& list) { return {list.begin(), list.end()}; }

// Does something else than a plain call run the graph: a loop, also by the wrapper it has of its own, or a branch?
bool is_run_otherwise(const Graph& graph) {
  const auto is_loop = [](const Op* op) { return op->kind().type == "Loop"; };
  return std::any_of(graph.sites().begin(), graph.sites().end(), [&](const Op* site) {
    const OpSet& outer = site->graph().sites();
    return site->kind().type != "Call" || std::any_of(outer.begin(), outer.end(), is_loop);
  });
}

}  // namespace

bool GradGraphMaker::recomputes(Stitch stitch) const {
  switch (stitch) {
    case Stitch::kAddFwdOutputs:
      return false;
    case Stitch::kSafeAddFwdOutputs:
      return is_run_otherwise(forward_);
    default:
      return true;
  }
}

void GradGraphMaker::finish_inputs(GradGraphInfo& info, const std::vector<Op*>& order, Stitch stitch) {
  const TensorSet outputs = set_of(graph_->outputs);
  for (auto at = values_.begin(); at != values_.end();) {  // a stand-in that nobody reads in the end
    if (at->second.second->uses().empty() && !outputs.contains(at->second.second)) {
      graph_->erase_tensor(*at->second.second);
      at = values_.erase(at);
    } else {
      ++at;
    }
  }
  if (recomputes(stitch)) recompute(order, stitch != Stitch::kRecomputeAllNonInputs);
  std::vector<Tensor*> missing;
  const TensorSet forward_inputs = set_of(forward_.inputs), forward_outputs = set_of(forward_.outputs);
  for (const auto& [id, value] : values_) {
    graph_->inputs.push_back(value.second);
    info.inputs.push_back({id, ConnectionType::kFwd});
    if (!forward_inputs.contains(value.first) && !forward_outputs.contains(value.first))
      missing.push_back(value.first);
  }
  append_outputs(missing);
}

void GradGraphMaker::append_outputs(const std::vector<Tensor*>& values) {
  for (Tensor* value : values) {
    const int number = static_cast<int>(forward_.outputs.size());
    forward_.outputs.push_back(value);
    for (Op* op : forward_.sites())
      if (op->kind().type == "Call")
        op->create_output(number, forward_.program().intermediate_id(op->graph().scoped("autodiff_output")))
            .info = value->info;
  }
}

// Values that are no input (nor, with keep_outputs, an output) of the forward graph are made here, by copies of the
// ops that make them there: one walk for all of them.
void GradGraphMaker::recompute(const std::vector<Op*>& order, bool keep_outputs) {
  const TensorSet inputs = set_of(forward_.inputs), outputs = set_of(forward_.outputs);
  const auto is_given = [&](const Tensor* tensor) {
    return inputs.contains(tensor) || (keep_outputs && outputs.contains(tensor));
  };
  std::map<std::string, std::pair<Tensor*, Tensor*>> wanted;
  std::vector<Tensor*> open;
  for (const auto& [id, value] : values_) {
    Tensor* forward = value.first;
    if (is_given(forward) || (forward->producer() == nullptr && forward->type != TensorType::kConst))
      continue;
    wanted.emplace(id, value);
    open.push_back(forward);
  }
  std::set<const Op*> needed;
  while (!open.empty()) {
    Tensor* tensor = open.back();
    open.pop_back();
    if (is_given(tensor) || tensor->producer() == nullptr || !needed.insert(tensor->producer()).second)
      continue;
    for (const auto& [i, input] : tensor->producer()->inputs()) open.push_back(input);
  }
  std::map<const Tensor*, Tensor*> made;
  if (!needed.empty())
    for (const Op* op : order)
      if (needed.contains(op)) copy_op(*op, made);
  for (const auto& [id, value] : wanted) {
    Tensor& again = made_again(*value.first, made);
    Tensor* stand_in = value.second;
    values_.erase(id);
    for (const Tensor::Use use : std::vector<Tensor::Use>(stand_in->uses()))
      use.op->connect_input(use.input, again);
    std::replace(graph_->outputs.begin(), graph_->outputs.end(), stand_in, &again);
    graph_->erase_tensor(*stand_in);
  }
}

Tensor& GradGraphMaker::made_again(Tensor& forward, std::map<const Tensor*, Tensor*>& made) {
  if (const auto found = made.find(&forward); found != made.end()) return *found->second;
  if (forward.type != TensorType::kConst) return forward_value(forward);
  Tensor& copy = graph_->create_tensor(graph_->unique_id(forward.name()), forward.info, TensorType::kConst);
  copy.constant = forward.constant;
  made[&forward] = &copy;
  return copy;
}

void GradGraphMaker::copy_op(const Op& op, std::map<const Tensor*, Tensor*>& made) {
  Op& copy = graph_->clone_op(op);
  for (const auto& [i, input] : op.inputs()) copy.connect_input(i, made_again(*input, made));
  for (const auto& [i, output] : op.outputs()) {
    Tensor& again = copy.create_output(i, graph_->unique_id(output->name()));
    again.info = output->info;
    made[output] = &again;
  }
}

}  // namespace ipu::popxl
