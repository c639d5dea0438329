// `main` around the micro-batches: loops, seeds, what enters and leaves slots, updates.
#include <algorithm>
#include <utility>

#include "frontends/common/replicas.h"
#include "frontends/common/step_emitter.h"
#include "ir/structure.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends {

using ir::Value;

void StepEmitter::emit_main() {
  ir::Graph* main = module_.add_graph("main");
  module_.entry_points["main"] = main->name();
  ir::Builder builder(main);
  Slots slots(slot_count_, nullptr);
  read_variables(builder, slots);
  for (const Trained& trained : trained_) {
    stand_at(builder, variables_[trained.variable].home, ir::Context::kAccumulateOuter);
    for (size_t i = 0; i < trained.states.size(); ++i)
      if (trained.states[i].is_in_slot())
        slots[trained.states[i].slot()] = builder.read_variable(*trained.state_variables[i]);
  }
  for (const auto& [name, slot] : hyper_slots_) {
    stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    slots[slot] = builder.host_load(*module_.find_stream(name));
  }

  load_seed(builder, slots);
  if (scales_losses()) read_loss_scaling(builder, slots);
  if (previous_scaling_ >= 0) {
    stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    slots[previous_scaling_] = builder.read_variable(*previous_scaling_variable_);
  }

  std::set<int> changed = written_slots();
  if (options_.training) {
    for (int slot : {scaling_factor_, updates_counted_, previous_scaling_})
      if (slot >= 0) changed.insert(slot);
    for (const Trained& trained : trained_) {
      if (const Residence& at = variables_[trained.variable].at; at.is_in_slot()) changed.insert(at.slot());
      for (const Residence& state : trained.states)
        if (state.is_in_slot()) changed.insert(state.slot());
    }
    repeat(builder, slots, options_.device_iterations, changed, false, "device_iteration",
           [this](ir::Builder& inner, Slots& values, Value* index) {
             emit_device_iteration(inner, values, index);
           });
  } else {
    repeat(builder, slots, options_.device_iterations, changed, is_pipelined_, "micro_batch",
           [this](ir::Builder& inner, Slots& values, Value* index) {
             if (seed_input_ >= 0)
               derive_seed(inner, values[iteration_seed_], values[run_seed_], index, ir::Context::kForward);
             emit_micro_batch(inner, values, nullptr);
             emit_barrier(inner);
           });
  }

  for (const StepVariable& state : variables_) {
    if (!state.at.is_in_slot() || !changed.contains(state.at.slot())) continue;
    stand_at(builder, state.home, ir::Context::kAccumulateOuter);
    builder.assign_variable(*state.variable, slots[state.at.slot()]);
  }
  for (const Trained& trained : trained_) {
    stand_at(builder, variables_[trained.variable].home, ir::Context::kAccumulateOuter);
    for (size_t i = 0; i < trained.states.size(); ++i)
      if (trained.states[i].is_in_slot())
        builder.assign_variable(*trained.state_variables[i], slots[trained.states[i].slot()]);
  }
  if (scales_losses()) assign_loss_scaling(builder, slots);
  if (previous_scaling_ >= 0) {
    stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    builder.assign_variable(*previous_scaling_variable_, slots[previous_scaling_]);
  }
}

void StepEmitter::read_variables(ir::Builder& builder, Slots& slots) const {
  for (const StepVariable& state : variables_) {
    if (!state.at.is_in_slot()) continue;
    stand_at(builder, state.home, ir::Context::kForward);
    slots[state.at.slot()] = builder.read_variable(*state.variable);
  }
}

void StepEmitter::emit_forward_program() {
  ir::Graph* graph = module_.add_graph(kForwardProgram);
  module_.entry_points[kForwardProgram] = graph->name();
  ir::Builder builder(graph);
  Slots slots(slot_count_, nullptr);
  read_variables(builder, slots);
  load_seed(builder, slots);
  repeat(builder, slots, options_.device_iterations * options_.accumulation, written_slots(), is_pipelined_,
         "forward_micro_batch", [this](ir::Builder& inner, Slots& values, Value* index) {
           if (seed_input_ >= 0)
             derive_seed(inner, values[iteration_seed_], values[run_seed_], index, ir::Context::kForward);
           emit_forward(inner, values, nullptr);
         });
}

void StepEmitter::derive_seed(ir::Builder& builder, Value*& derived, Value* seed, Value* counter,
                              ir::Context context) const {
  stand_at(builder, home_of_input(*forward_.graph->inputs()[seed_input_]), context);
  if (counter == nullptr) counter = builder.scalar(DType::kI32, 0);
  derived = ops::build(builder, "random_seed", {seed, counter}, {}, "seed");
}

void StepEmitter::emit_device_iteration(ir::Builder& builder, Slots& slots, Value* index) {
  if (seed_input_ >= 0)
    derive_seed(builder, slots[iteration_seed_], slots[run_seed_], index, ir::Context::kAccumulateOuter);
  std::set<int> changed = written_slots();
  if (scales_losses()) begin_loss_scaling(builder, slots);
  for (const GradientCount& count : gradient_counts_) changed.insert(count.slot);
  for (const Trained& trained : trained_) {
    if (!trained.has_accumulator) continue;
    begin_accumulation(builder, slots, trained);
    if (trained.accumulator.is_in_slot()) changed.insert(trained.accumulator.slot());
  }
  repeat(builder, slots, options_.accumulation, changed, is_pipelined_, "micro_batch",
         [this](ir::Builder& inner, Slots& values, Value* index) { emit_micro_batch(inner, values, index); });
  // The norm needs all gradients; those that live elsewhere else wait for their turn.
  const bool clips = options_.optimizer.clips() || !options_.optimizer.clip_groups.empty();
  std::vector<Value*> gradients;
  for (const Trained& trained : trained_)
    gradients.push_back(clips || trained.accumulator.is_plain() ? reduced_gradient(builder, slots, trained)
                                                                : nullptr);
  Value* gradient_factor = emit_clipping(builder, gradients, slots);
  const std::vector<Clip> clip_groups = emit_clip_groups(builder, gradients, slots);
  Value* ratio = scaling_ratio(builder, slots);
  for (size_t t = 0; t < trained_.size(); ++t) {
    const Trained& trained = trained_[t];
    if (gradients[t] == nullptr) gradients[t] = reduced_gradient(builder, slots, trained);
    optimizers::UpdateInput input = update_input(builder, slots, trained, gradients[t]);
    input.gradient_factor = gradient_factor;
    input.measured = clip_groups[t].measured;
    input.clip_factor = clip_groups[t].factor;
    input.scaling_ratio = ratio;
    update(builder, slots, trained, input);
  }
  store_untrained(builder, slots);
  if (scales_losses()) update_loss_scaling(builder, slots);
  emit_barrier(builder);
}

void StepEmitter::emit_barrier(ir::Builder& builder) const {
  auto overlaps = [](const auto& stream) {
    return stream.exchange == ir::ExchangeStrategy::kOverlapInnerLoop;
  };
  if (options_.device_iterations == 1 ||
      (std::none_of(forward_.inputs.begin(), forward_.inputs.end(), overlaps) &&
       std::none_of(forward_.outputs.begin(), forward_.outputs.end(), overlaps)))
    return;
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  builder.create(ir::kind::kIoBarrier, {}, {}, {});
}

void StepEmitter::begin_accumulation(ir::Builder& builder, Slots& slots, const Trained& trained) {
  const StepVariable& state = variables_[trained.variable];
  stand_at(builder, state.home, ir::Context::kAccumulateOuter);
  const Residence& at = trained.accumulator;
  if (!optimizers::accumulates_in_state(options_.optimizer, trained.group))
    return at.store_stored(builder, slots, builder.splat(at.stored(), 0.0));
  Value* weight = state.at.load(builder, slots);
  Value* start = optimizers::begin_accumulation(
      builder, options_.optimizer, trained.group,
      {weight, load_states(builder, trained, slots), streamed_values(trained.group, slots)});
  Residence::drop_unread(weight);
  // Shards hold sums over the replicas of a process already.
  if (!at.is_sharded())
    start = share_in_group(builder, start, *state.variable, options_.replicas);
  else if (replicas_in_group(*state.variable, options_.replicas) > at.shards().members)
    start = ops::build(
        builder, "mul",
        {start, builder.scalar(start->type().dtype, static_cast<double>(at.shards().members) /
                                                        static_cast<double>(replicas_in_group(
                                                            *state.variable, options_.replicas)))});
  at.store(builder, slots, start);
}

Value* StepEmitter::reduced_gradient(ir::Builder& builder, const Slots& slots, const Trained& trained) const {
  Value* sum = summed_gradient(builder, slots, trained);
  const optimizers::Spec& spec = options_.optimizer;
  if (!optimizers::averages_replicas(spec, trained.group)) return sum;
  return ops::build(builder, "div",
                    {sum, builder.scalar(sum->type().dtype, static_cast<double>(spec.replicas))});
}

Value* StepEmitter::summed_gradient(ir::Builder& builder, const Slots& slots, const Trained& trained) const {
  const StepVariable& state = variables_[trained.variable];
  stand_at(builder, state.home, ir::Context::kAccumulateOuter);
  const Residence& at = trained.accumulator;
  Value* sum = at.load_stored(builder, slots);
  if (!at.is_sharded()) return sum_over_group(builder, sum, *state.variable, options_.replicas);
  if (sum->type().dtype == DType::kF16) sum = ops::build(builder, "cast", {sum}, {{"dtype", DType::kF32}});
  const int64_t others = replicas_in_group(*state.variable, options_.replicas) / at.shards().members;
  if (others > 1)  // the same piece in the other processes
    sum = ops::build(builder, "all_reduce", {sum},
                     {{"group_size", others}, {"group_stride", at.shards().members}});
  return at.gathered(builder, sum);
}

optimizers::UpdateInput StepEmitter::update_input(ir::Builder& builder, const Slots& slots,
                                                  const Trained& trained, Value* gradient) const {
  const StepVariable& state = variables_[trained.variable];
  stand_at(builder, state.home, ir::Context::kAccumulateOuter);
  return {state.at.load(builder, slots), gradient, load_states(builder, trained, slots),
          streamed_values(trained.group, slots)};
}

void StepEmitter::update(ir::Builder& builder, Slots& slots, const Trained& trained,
                         const optimizers::UpdateInput& input) {
  const StepVariable& state = variables_[trained.variable];
  store_state(builder, slots, state.home, kFinalGradient + state.variable->name, input.gradient);
  const optimizers::UpdateResult result =
      optimizers::build_update(builder, options_.optimizer, trained.group, input, gradient_divisor());
  state.at.store(builder, slots, result.weight);
  store_updated(builder, slots, state);
  for (size_t i = 0; i < trained.states.size(); ++i) {
    trained.states[i].store(builder, slots, result.state[i]);
    store_state(builder, slots, state.home, trained.state_variables[i]->name, result.state[i]);
  }
  if (trained.accumulator.is_in_slot()) slots[trained.accumulator.slot()] = nullptr;
}

Value* StepEmitter::emit_clipping(ir::Builder& builder, const std::vector<Value*>& gradients,
                                  const Slots& slots) const {
  const optimizers::Spec& spec = options_.optimizer;
  if (!spec.clips() || trained_.empty()) return nullptr;
  std::vector<Value*> squares;
  for (size_t t = 0; t < trained_.size(); ++t) {
    stand_at(builder, variables_[trained_[t].variable].home, ir::Context::kAccumulateOuter);
    squares.push_back(optimizers::squared_norm(builder, gradients[t]));
  }
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  Value* sum = squares.size() == 1 ? squares[0] : ops::build_op(builder, "add_n", squares)->result();
  return optimizers::gradient_factor(builder, spec, sum, streamed_values(trained_[0].group, slots),
                                     gradient_divisor());
}

std::vector<StepEmitter::Clip> StepEmitter::emit_clip_groups(ir::Builder& builder,
                                                             const std::vector<Value*>& gradients,
                                                             Slots& slots) {
  std::vector<Clip> clips(trained_.size());
  std::map<std::string, size_t> trained_of;
  for (size_t t = 0; t < trained_.size(); ++t)
    trained_of[variables_[trained_[t].variable].variable->name] = t;
  for (size_t g = 0; g < options_.optimizer.clip_groups.size(); ++g) {
    const optimizers::ClipGroup& group = options_.optimizer.clip_groups[g];
    std::vector<Value*> squares;
    std::vector<size_t> members;
    for (const std::string& name : group.parameters) {
      const auto at = trained_of.find(name);
      if (at == trained_of.end()) continue;  // the loss does not depend on it
      const Trained& trained = trained_[at->second];
      members.push_back(at->second);
      clips[at->second].measured = optimizers::measured_value(
          builder, options_.optimizer, trained.group,
          update_input(builder, slots, trained, gradients[at->second]), gradient_divisor());
      squares.push_back(optimizers::squared_norm(builder, clips[at->second].measured));
    }
    if (members.empty()) continue;
    stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    Value* sum = squares.size() == 1 ? squares[0] : ops::build_op(builder, "add_n", squares)->result();
    Value* norm = ops::build(builder, "sqrt", {sum});
    store_state(builder, slots, {plan_.blocks.front(), nullptr}, kGlobalNorm + std::to_string(g), norm);
    Value* factor = optimizers::clip_factor(builder, group.max_norm, norm);
    for (const size_t t : members) clips[t].factor = factor;
  }
  return clips;
}

Value* StepEmitter::scaling_ratio(ir::Builder& builder, Slots& slots) const {
  if (previous_scaling_ < 0 || options_.optimizer.loss_scaling.constant) return nullptr;
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  Value* now = loss_scaling(slots);
  return ops::build(builder, "div", {now, std::exchange(slots[previous_scaling_], now)});
}

std::vector<Value*> StepEmitter::load_states(ir::Builder& builder, const Trained& trained,
                                             const Slots& slots) {
  std::vector<Value*> values;
  for (const Residence& state : trained.states) values.push_back(state.load(builder, slots));
  return values;
}

std::map<std::string, Value*> StepEmitter::streamed_values(int group, const Slots& slots) const {
  std::map<std::string, Value*> values;
  for (const auto& [name, value] : optimizers::streamed_hypers(options_.optimizer, group))
    values[name] = slots[hyper_slots_.at(optimizers::stream_name(group, name))];
  if (!options_.optimizer.loss_scaling.constant) values["loss_scaling"] = loss_scaling(slots);
  return values;
}

double StepEmitter::gradient_divisor() const {
  return options_.mean_reduction ? static_cast<double>(options_.accumulation * options_.replicas) : 1.0;
}

}  // namespace ipu::frontends
