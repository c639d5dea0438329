// One micro-batch of a step: forward and backward graph, streams, accumulation.
#include <unordered_map>

#include "frontends/common/step_emitter.h"
#include "ops/definition/build.h"

namespace ipu::frontends {

using ir::Value;

StepEmitter::ForwardPass StepEmitter::emit_forward(ir::Builder& builder, Slots& slots, Value* index) {
  std::vector<Value*> arguments;
  std::map<int, Value*> loaded;
  for (size_t i = 0; i < forward_.inputs.size(); ++i) {
    if (variable_of_input_[i] >= 0) {
      arguments.push_back(weight(builder, slots, variable_of_input_[i], ir::Context::kForward, loaded));
    } else if (static_cast<int>(i) == seed_input_) {
      arguments.push_back(nullptr);
      derive_seed(builder, arguments.back(), slots[iteration_seed_], index, ir::Context::kForward);
    } else {
      stand_at(builder, home_of_input(*forward_.graph->inputs()[i]), ir::Context::kForward);
      overlap(builder, forward_.inputs[i].exchange);
      arguments.push_back(builder.host_load(*module_.find_stream(forward_.inputs[i].name)));
    }
  }
  builder.settings = {};
  builder.location = nullptr;
  const std::vector<Value*> results = builder.call(forward_.graph, arguments);
  for (size_t i = 0; i < forward_.outputs.size(); ++i) {
    if (forward_.outputs[i].kind == ForwardGraph::Output::Kind::kHost) {
      stand_at(builder, home_of_value(*forward_.graph->outputs()[i]), ir::Context::kForward);
      overlap(builder, forward_.outputs[i].exchange);
      builder.host_store(*module_.find_stream(forward_.outputs[i].name), results[i]);
    } else {
      variables_[variable_of_output_.at(static_cast<int>(i))].at.store(builder, slots, results[i]);
    }
  }
  return {arguments, results};
}

void StepEmitter::emit_micro_batch(ir::Builder& builder, Slots& slots, Value* index) {
  const auto [arguments, results] = emit_forward(builder, slots, index);
  if (gradient_.graph != nullptr)
    emit_backward(builder, slots, arguments, results, index);
  else
    store_value_gradients(builder, slots, {});
}

Value* StepEmitter::weight(ir::Builder& builder, const Slots& slots, int variable, ir::Context context,
                           std::map<int, Value*>& loaded) const {
  const StepVariable& state = variables_[variable];
  if (state.at.is_plain()) return slots[state.at.slot()];
  Value*& value = loaded[variable];
  if (value != nullptr) return value;
  stand_at(builder, state.home, context);
  return value = state.at.load(builder, slots);
}

Value* StepEmitter::loss_gradient(ir::Builder& builder, const Slots& slots) const {
  stand_at(builder, home_of_value(*loss_), ir::Context::kBackward);
  const optimizers::HyperParameter& scaling = options_.optimizer.loss_scaling;
  if (scaling.constant) return builder.splat(loss_->type(), scaling.value);
  Value* seed = loss_scaling(slots);
  if (loss_->type().dtype != DType::kF32)
    seed = ops::build(builder, "cast", {seed}, {{"dtype", loss_->type().dtype}});
  if (!loss_->type().shape.empty())
    seed = ops::build(builder, "expand", {seed}, {{"shape", loss_->type().shape}});
  return seed;
}

void StepEmitter::emit_backward(ir::Builder& builder, Slots& slots, const std::vector<Value*>& arguments,
                                const std::vector<Value*>& results, Value* index) {
  std::unordered_map<const Value*, int> output_index;
  for (size_t i = 0; i < results.size(); ++i)
    output_index.try_emplace(forward_.graph->outputs()[i], static_cast<int>(i));
  std::vector<Value*> operands;
  std::map<int, Value*> loaded;
  for (const autodiff::Connection& input : gradient_.expected_inputs) {
    if (input.kind == autodiff::ConnectionKind::kGradient) {
      operands.push_back(loss_gradient(builder, slots));
    } else if (input.forward->producer() == nullptr) {
      const int number = variable_of_input_[input.forward->index()];
      // A written one is read as it was before forward wrote it.
      const bool is_read_again =
          number >= 0 && !variables_[number].at.is_plain() && variables_[number].is_read_again;
      operands.push_back(is_read_again ? weight(builder, slots, number, ir::Context::kBackward, loaded)
                                       : arguments[input.forward->index()]);
    } else {
      operands.push_back(results[output_index.at(input.forward)]);
    }
  }
  builder.settings = {};
  builder.settings.context = ir::Context::kBackward;
  builder.location = nullptr;
  std::vector<Value*> gradients = builder.call(gradient_.graph, operands);
  store_value_gradients(builder, slots, gradients);
  if (scales_losses()) {
    const auto counts = gradients.end() - std::ssize(gradient_counts_);
    add_gradient_counts(builder, slots, {counts, gradients.end()});
    gradients.erase(counts, gradients.end());
    store_scaling(builder, slots, index);
  }
  std::vector<std::vector<Value*>> parts(trained_.size());
  for (size_t i = 0; i < trained_of_gradient_.size(); ++i)
    if (trained_of_gradient_[i] >= 0) parts[trained_of_gradient_[i]].push_back(gradients[i]);
  for (size_t t = 0; t < trained_.size(); ++t) {
    const Trained& trained = trained_[t];
    stand_at(builder, variables_[trained.variable].home, ir::Context::kBackward);
    // A variable that is several inputs of the graph gets the sum of their gradients.
    Value* gradient =
        parts[t].size() == 1 ? parts[t][0] : ops::build_op(builder, "add_n", parts[t])->result();
    store_anchors(builder, options_.gradient_anchors, variables_[trained.variable], gradient);
    accumulate(builder, slots, trained, gradient, index);
  }
}

// In shards, a replica keeps its piece of the sum over the replicas.
void StepEmitter::accumulate(ir::Builder& builder, Slots& slots, const Trained& trained, Value* gradient,
                             Value* index) {
  const Residence& at = trained.accumulator;
  if (!trained.has_accumulator) return at.store_stored(builder, slots, gradient);
  if (at.is_sharded()) {
    if (gradient->type().dtype == DType::kF16)
      gradient = ops::build(builder, "cast", {gradient}, {{"dtype", DType::kF32}});
    gradient = ops::build(builder, "reduce_scatter", {gradient},
                          {{"group_size", at.shards().members}, {"group_stride", at.shards().stride}});
  }
  Value* before = at.load_stored(builder, slots);
  Value* sum = optimizers::accumulate(builder, options_.optimizer, trained.group, before, gradient,
                                      streamed_values(trained.group, slots), gradient_divisor(), index);
  at.store_stored(builder, slots, sum);
  const std::string name = kAccumulated + variables_[trained.variable].variable->name;
  for (const StepOptions::Anchor& anchor : options_.state_anchors)
    if (anchor.parameter == name)
      builder.host_store(*module_.find_stream(anchor.stream), at.gathered(builder, sum));
}

}  // namespace ipu::frontends
