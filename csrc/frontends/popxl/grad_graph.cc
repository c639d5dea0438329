#include "frontends/popxl/grad_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "frontends/popxl/call_check.h"
#include "frontends/popxl/kinds/indexing.h"
#include "frontends/popxl/op_kind.h"
#include "ir/tensor_names.h"
#include "support/wording.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void not_differentiable(std::string text, const Op& op) {
  throw Error(ErrorCode::kNotDifferentiable, std::move(text)).at(ir::user_line(op.settings.location));
}

bool is_call(const Op& op) { return op.kind().type == "Call"; }
bool is_branch(const Op& op) { return op.kind().type == "If"; }
bool has_no_gradient(const Op& op) {
  const OpKind& kind = op.kind();
  return (kind.differentiable == Differentiable::kNo && !is_call(op) && !is_branch(op)) ||
         (kind.stops_gradient && kind.stops_gradient(op));
}
// Integers have gradients where they are computed from what is required, by ops that have some.
bool integer_has_gradient(const Op& op, int output) {
  return op.kind().differentiable != Differentiable::kRefused && output != op.kind().index_output &&
         op.output(output)->info.dtype != DataType::kBool;
}

// Inputs of `op` that a gradient may arise for.
std::vector<int> arguments_of(const Op& op, const GradientRow& row) {
  if (row.arguments.front() >= 0) return row.arguments;
  std::vector<int> all;
  for (const auto& [i, tensor] : op.inputs()) all.push_back(i);
  return all;
}

// Where the tensors of a callee stand at the op that runs it, by id; the first place where one has several.
using Places = std::unordered_map<std::string_view, int>;

Places places(const std::vector<Tensor*>& tensors) {
  Places places;
  for (size_t i = 0; i < tensors.size(); ++i) places.emplace(tensors[i]->id(), static_cast<int>(i));
  return places;
}

Places places(const std::vector<Tensor*>& tensors, const std::map<int, int>& numbers) {
  Places places;
  for (const auto& [i, number] : numbers) places.emplace(tensors.at(static_cast<size_t>(i))->id(), number);
  return places;
}

int place_of(const Places& places, std::string_view id) {  // -1: nowhere
  const auto found = places.find(id);
  return found == places.end() ? -1 : found->second;
}

}  // namespace

void refuse_writes(const Graph& graph) {
  for (const auto& [id, op] : graph.ops())
    if (!op->kind().modifies.empty() || !op->modified.empty())
      not_differentiable(
          fmt::format(
              "graph with a write: graph '{}' has {} {}, which overwrites its input; differentiate what comes "
              "before the write, or use the form of the op that gives a new tensor",
              graph.id(), op->kind().type, id),
          *op);
}

GradGraphInfo GradGraphMaker::make(const std::vector<Tensor*>& provided, const std::vector<Tensor*>& required,
                                   bool available, Stitch stitch) {
  const std::vector<Op*> order = forward_.schedule();
  find_active(order, required);
  Program& program = forward_.program();
  std::string id = forward_.id() + "_bwd";
  for (int k = 0; program.find_graph(id) != nullptr; ++k) id = fmt::format("{}_bwd_{}", forward_.id(), k);
  graph_ = &program.create_graph(id);
  GradGraphInfo info;
  info.graph_id = id;
  try {
    for (Tensor* tensor : provided) {
      if (available && !carries_gradient(*tensor)) continue;
      Tensor& input =
          graph_->create_tensor(graph_->unique_id(fmt::format("{}{}", ir::kGradientPrefix, tensor->name())),
                                tensor->info, TensorType::kActGrad);
      graph_->inputs.push_back(&input);
      provided_.emplace(tensor, &input);
      info.inputs.push_back({tensor->id(), ConnectionType::kFwdGrad});
    }
    for (auto op = order.rbegin(); op != order.rend(); ++op) differentiate(**op);
    for (Tensor* tensor : required) {
      Tensor* gradient = gradient_of(*tensor);
      if (gradient == nullptr && !available)
        throw worded(
            ErrorCode::kNotDifferentiable, "no_gradient_arises",
            "no gradient arises: of '{tensor}' in graph '{graph}'; nothing whose gradient is provided "
            "depends on it by ops that have one",
            {{"tensor", tensor->id()}, {"graph", forward_.id()}});
      if (gradient == nullptr) continue;
      graph_->outputs.push_back(gradient);
      info.outputs.push_back({tensor->id(), ConnectionType::kFwdGrad});
    }
    finish_inputs(info, order, stitch);
  } catch (const Error&) {
    program.erase_graph(*graph_);
    throw;
  }
  return info;
}

// Tensors that depend on `required` by ways that gradients go.
void GradGraphMaker::find_active(const std::vector<Op*>& order, const std::vector<Tensor*>& required) {
  active_.insert(required.begin(), required.end());
  for (const Op* op : order) {
    const bool depends = std::any_of(op->inputs().begin(), op->inputs().end(),
                                     [&](const auto& entry) { return is_active(entry.second); });
    if (!depends || has_no_gradient(*op)) continue;
    for (const auto& [i, tensor] : op->outputs())
      if (is_floating_point(tensor->info.dtype) || integer_has_gradient(*op, i)) active_.insert(tensor);
  }
}

Op& GradGraphMaker::create(const OpKind& kind, Attributes attributes, const Op& forward) {
  OpSettings settings = forward.settings;
  return graph_->create_op(kind, {kind.domain, kind.type, kind.version}, std::move(attributes),
                           std::move(settings));
}

void GradGraphMaker::add_contribution(Tensor& forward, Tensor& gradient, const Op& from) {
  contributions_[&forward].push_back(&gradient);
  first_contributor_.emplace(&forward, &from);
}

Tensor* GradGraphMaker::gradient_of(Tensor& forward) {
  if (const auto found = gradients_.find(&forward); found != gradients_.end()) return found->second;
  const auto provided = provided_.find(&forward);
  const auto inside = contributions_.find(&forward);
  Tensor* given = provided == provided_.end() ? nullptr : provided->second;
  if (inside == contributions_.end()) return gradients_[&forward] = given;
  std::vector<Tensor*> addends = inside->second;
  if (given != nullptr) {
    // The sum has the plain name; the input, whose place stays, one of its own.
    Tensor& renamed =
        graph_->create_tensor(forward_.program().intermediate_id(given->id()), given->info, given->type);
    *std::find(graph_->inputs.begin(), graph_->inputs.end(), given) = &renamed;
    for (const Tensor::Use use : std::vector<Tensor::Use>(given->uses()))
      use.op->connect_input(use.input, renamed);
    graph_->erase_tensor(*given);
    provided_[&forward] = &renamed;
    addends.insert(addends.begin(), &renamed);
  }
  const Op& place = forward.producer() != nullptr ? *forward.producer() : *first_contributor_.at(&forward);
  Op& sum = create(kind_of("Sum"), {}, place);
  for (size_t i = 0; i < addends.size(); ++i) sum.connect_input(static_cast<int>(i), *addends[i]);
  Tensor& total =
      sum.create_output(0, graph_->unique_id(fmt::format("{}{}", ir::kGradientPrefix, forward.name())));
  total.info = forward.info;
  // Of a shard that was gathered: plain tensors, of its shape.
  if (std::all_of(addends.begin(), addends.end(),
                  [](const Tensor* addend) { return addend->info.meta_shape.empty(); }))
    total.info.meta_shape.clear();
  return gradients_[&forward] = &total;
}

// The stand-in of a forward value in the gradient graph: an input, in the end, or recomputed.
Tensor& GradGraphMaker::forward_value(Tensor& forward) {
  auto& slot = values_[forward.id()];
  if (slot.second == nullptr)
    slot = {&forward,
            &graph_->create_tensor(graph_->unique_id(forward.name()), forward.info, TensorType::kActGrad)};
  return *slot.second;
}

void GradGraphMaker::differentiate(Op& op) {
  bool arrived = false;
  for (const auto& [i, tensor] : op.outputs())
    arrived = arrived || (carries_gradient(*tensor) && gradient_of(*tensor) != nullptr);
  const bool wanted = std::any_of(op.inputs().begin(), op.inputs().end(),
                                  [&](const auto& entry) { return is_active(entry.second); });
  if (!arrived || !wanted) return;
  if (is_call(op)) return differentiate_call(op);
  if (is_branch(op)) return differentiate_branch(op);
  if (has_no_gradient(op)) return;
  if (op.kind().differentiable == Differentiable::kRefused)
    not_differentiable(
        fmt::format("op without a gradient: {} {} of graph '{}' stands between what is required and "
                    "what is provided; detach() before it stops the gradient",
                    op.kind().type, op.id(), forward_.id()),
        op);
  if (op.kind().why_no_gradient)
    if (const std::string why = op.kind().why_no_gradient(op); !why.empty())
      not_differentiable(fmt::format("op without a gradient: {} {} of graph '{}': {}", op.kind().type,
                                     op.id(), forward_.id(), why),
                         op);
  for (const GradientRow& row : op.kind().gradients) {
    if (row.attributes) {
      add_ordinary_op(op, row);
    } else if (row.arguments == std::vector<int>{-1}) {
      for (const int i : arguments_of(op, row)) add_gradient_op(op, row, {i});
    } else {
      add_gradient_op(op, row, arguments_of(op, row));
    }
  }
}

// The gradient of input 0 is an op of this structure like others, on the gradient of output 0.
void GradGraphMaker::add_ordinary_op(Op& op, const GradientRow& row) {
  Tensor& argument = *op.input(0);
  Op& gradient = create(kind_of(row.type), row.attributes(op), op);
  gradient.connect_input(0, *gradient_of(*op.output(0)));
  Tensor& result = gradient.create_output(0, graph_->unique_id(fmt::format("{}_grad_part", argument.name())));
  gradient.setup();
  add_contribution(argument, result, op);
}

void GradGraphMaker::add_gradient_op(Op& op, const GradientRow& row, const std::vector<int>& arguments) {
  std::vector<int> present;
  bool wanted = false;
  for (const int i : arguments)
    if (const Tensor* tensor = op.input(i); tensor != nullptr && carries_gradient(*tensor)) {
      present.push_back(i);
      wanted = wanted || is_active(tensor);
    }
  if (!wanted) return;
  auto forward = std::make_unique<ForwardOp>();
  forward->kind = &op.kind();
  forward->attributes = op.attributes;
  forward->differentiated = present;
  for (const auto& [i, tensor] : op.inputs()) {
    forward->inputs[i] = tensor->info;
    const auto& constant = tensor->constant;
    if (constant != nullptr && is_integer(constant->dtype) && element_count(tensor->info.shape) == 1)
      forward->integers[i] = first_integer(*constant);
  }
  for (const auto& [i, tensor] : op.outputs()) forward->outputs[i] = tensor->info;
  Op& gradient = create(kind_of(row.type), op.attributes, op);
  for (const auto& [i, tensor] : op.outputs()) {
    Tensor* upstream = carries_gradient(*tensor) ? gradient_of(*tensor) : nullptr;
    if (upstream == nullptr) continue;
    gradient.connect_input(i, *upstream);
    forward->consumed[i] = {GradientInput::From::kGradOut, i};
  }
  int next = op.outputs().empty() ? 0 : op.outputs().rbegin()->first + 1;
  std::vector<Consumed> consumed = row.consumed_by ? row.consumed_by(op.attributes) : row.consumed;
  for (Consumed& value : consumed)  // "that argument", of an op with any number of them
    if (!value.is_output && value.index == kThatArgument) value.index = arguments.front();
  for (const Consumed& value : consumed) {
    Tensor* tensor = value.is_output ? op.output(value.index) : op.input(value.index);
    if (tensor == nullptr) continue;
    gradient.connect_input(next, forward_value(*tensor));
    forward->consumed[next++] = {value.is_output ? GradientInput::From::kOut : GradientInput::From::kIn,
                                 value.index};
  }
  gradient.forward = std::move(forward);
  for (size_t k = 0; k < present.size(); ++k) {
    Tensor& argument = *op.input(present[k]);
    Tensor& result = gradient.create_output(static_cast<int>(k),
                                            graph_->unique_id(fmt::format("{}_grad_part", argument.name())));
    result.info = argument.info;
    if (is_active(&argument)) add_contribution(argument, result, op);
  }
}

Tensor& GradGraphMaker::zeros_like(const Tensor& forward, const Op& op) {
  Op& init = create(kind_of("Init"),
                    {{"dtype", static_cast<int64_t>(forward.info.dtype)},
                     {"shape", forward.info.shape},
                     {"meta_shape", forward.info.meta_shape}},
                    op);
  Tensor& zeros =
      init.create_output(0, graph_->unique_id(fmt::format("{}{}", ir::kGradientPrefix, forward.name())));
  zeros.info = forward.info;
  return zeros;
}

Tensor& GradGraphMaker::upstream_or_zeros(Op& op, int output) {
  Tensor* tensor = op.output(output);
  Tensor* gradient = gradient_of(*tensor);
  return gradient != nullptr ? *gradient : zeros_like(*tensor, op);
}

// What the gradient graph of `callee` expects, for a call whose inputs and outputs have the numbers of the graph's.
void GradGraphMaker::differentiate_call(Op& op) {
  check_call(op);
  const Graph& callee = *op.callees[0];
  const auto info = callees_.find(callee.id());
  if (info == callees_.end() || info->second.outputs.empty()) return;
  Program& program = forward_.program();
  Op& call = create(kind_of("CallGrad"), {}, op);
  call.callees = std::vector<Graph*>{&program.graph(info->second.graph_id)};
  const Places outputs = places(callee.outputs), inputs = places(callee.inputs);
  for (size_t i = 0; i < info->second.inputs.size(); ++i) {
    const ExpectedConnection& expected = info->second.inputs[i];
    const int output = place_of(outputs, expected.forward_id);
    if (expected.type == ConnectionType::kFwdGrad) {
      call.connect_input(static_cast<int>(i), upstream_or_zeros(op, output));
      continue;
    }
    const int input = place_of(inputs, expected.forward_id);
    call.connect_input(static_cast<int>(i),
                       forward_value(input >= 0 ? *op.input(input) : *op.output(output)));
  }
  for (size_t i = 0; i < info->second.outputs.size(); ++i) {
    Tensor& argument = *op.input(place_of(inputs, info->second.outputs[i].forward_id));
    Tensor& result = call.create_output(static_cast<int>(i),
                                        graph_->unique_id(fmt::format("{}_grad_part", argument.name())));
    result.info = call.callees[0]->outputs.at(i)->info;
    if (is_active(&argument)) add_contribution(argument, result, op);
  }
}

void GradGraphMaker::differentiate_branch(Op& op) {
  check_call(op);
  Program& program = forward_.program();
  std::vector<const GradGraphInfo*> infos;
  for (const Graph* branch : op.callees) {
    const auto info = callees_.find(branch->id());
    if (info == callees_.end()) return;
    infos.push_back(&info->second);
  }
  Op& gradient = create(kind_of("IfGrad"), {}, op);
  gradient.connect_input(0, forward_value(*op.input(0)));
  gradient.callees =
      std::vector<Graph*>{&program.graph(infos[0]->graph_id), &program.graph(infos[1]->graph_id)};
  gradient.callee_inputs.resize(2);
  gradient.callee_outputs.resize(2);
  int next_input = 1, next_output = 0;
  for (size_t b = 0; b < 2; ++b) {
    const Graph& branch = *op.callees[b];
    const Places outputs = places(branch.outputs, op.callee_outputs.at(b)),
                 inputs = places(branch.inputs, op.callee_inputs.at(b));
    for (size_t i = 0; i < infos[b]->inputs.size(); ++i) {
      const ExpectedConnection& expected = infos[b]->inputs[i];
      const int output = place_of(outputs, expected.forward_id);
      const int input = place_of(inputs, expected.forward_id);
      Tensor& value = expected.type == ConnectionType::kFwdGrad ? upstream_or_zeros(op, output)
                      : input >= 0                              ? forward_value(*op.input(input))
                                                                : forward_value(*op.output(output));
      gradient.connect_input(next_input, value);
      gradient.callee_inputs[b][static_cast<int>(i)] = next_input++;
    }
    for (size_t i = 0; i < infos[b]->outputs.size(); ++i) {
      Tensor& argument = *op.input(place_of(inputs, infos[b]->outputs[i].forward_id));
      Tensor& result = gradient.create_output(
          next_output, graph_->unique_id(fmt::format("{}_grad_part", argument.name())));
      result.info = gradient.callees[b]->outputs.at(i)->info;
      gradient.callee_outputs[b][static_cast<int>(i)] = next_output++;
      if (is_active(&argument)) add_contribution(argument, result, op);
    }
  }
}

}  // namespace ipu::popxl
