// `main` around the micro-batches: loops, seeds, what enters and leaves slots, updates.
#include <algorithm>

#include "frontends/common/replicas.h"
#include "frontends/common/step_emitter.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends {

using ir::Value;

void StepEmitter::emit_main() {
  ir::Graph* main = module_.add_graph("main");
  module_.entry_points["main"] = main->name();
  ir::Builder builder(main);
  Slots slots(slot_count_, nullptr);
  for (const StepVariable& state : variables_) {
    stand_at(builder, state.home, ir::Context::kForward);
    slots[state.slot] = builder.read_variable(*state.variable);
  }
  for (const Trained& trained : trained_) {
    stand_at(builder, variables_[trained.variable].home, ir::Context::kAccumulateOuter);
    for (size_t i = 0; i < trained.state_slots.size(); ++i)
      slots[trained.state_slots[i]] = builder.read_variable(*trained.state_variables[i]);
  }
  for (const auto& [name, slot] : hyper_slots_) {
    stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    slots[slot] = builder.host_load(*module_.find_stream(name));
  }

  load_seed(builder, slots);

  std::set<int> changed = written_slots();
  if (options_.training) {
    for (const Trained& trained : trained_) {
      changed.insert(variables_[trained.variable].slot);
      changed.insert(trained.state_slots.begin(), trained.state_slots.end());
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
           });
  }

  for (const StepVariable& state : variables_) {
    if (!changed.contains(state.slot)) continue;
    stand_at(builder, state.home, ir::Context::kAccumulateOuter);
    builder.assign_variable(*state.variable, slots[state.slot]);
  }
  for (const Trained& trained : trained_) {
    stand_at(builder, variables_[trained.variable].home, ir::Context::kAccumulateOuter);
    for (size_t i = 0; i < trained.state_slots.size(); ++i)
      builder.assign_variable(*trained.state_variables[i], slots[trained.state_slots[i]]);
  }
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
  for (const Trained& trained : trained_) {
    if (!trained.has_accumulator) continue;
    const StepVariable& state = variables_[trained.variable];
    stand_at(builder, state.home, ir::Context::kAccumulateOuter);
    slots[trained.accumulator_slot] = optimizers::begin_accumulation(
        builder, options_.optimizer, trained.group,
        {slots[state.slot], states_of(trained, slots), streamed_values(trained.group, slots)});
    if (optimizers::accumulates_in_state(options_.optimizer, trained.group))
      slots[trained.accumulator_slot] =
          share_in_group(builder, slots[trained.accumulator_slot], *state.variable, options_.replicas);
    changed.insert(trained.accumulator_slot);
  }
  repeat(builder, slots, options_.accumulation, changed, is_pipelined_, "micro_batch",
         [this](ir::Builder& inner, Slots& values, Value* index) { emit_micro_batch(inner, values, index); });
  for (const Trained& trained : trained_) {
    const StepVariable& state = variables_[trained.variable];
    stand_at(builder, state.home, ir::Context::kAccumulateOuter);
    slots[trained.accumulator_slot] =
        sum_over_group(builder, slots[trained.accumulator_slot], *state.variable, options_.replicas);
  }
  Value* gradient_factor = emit_clipping(builder, slots);
  for (const Trained& trained : trained_) {
    const StepVariable& state = variables_[trained.variable];
    stand_at(builder, state.home, ir::Context::kAccumulateOuter);
    const optimizers::UpdateResult result = optimizers::build_update(
        builder, options_.optimizer, trained.group,
        {slots[state.slot], slots[trained.accumulator_slot], states_of(trained, slots),
         streamed_values(trained.group, slots), gradient_factor},
        gradient_divisor());
    slots[state.slot] = result.weight;
    store_updated(builder, slots, trained);
    for (size_t i = 0; i < trained.state_slots.size(); ++i) slots[trained.state_slots[i]] = result.state[i];
    slots[trained.accumulator_slot] = nullptr;
  }
}

Value* StepEmitter::emit_clipping(ir::Builder& builder, const Slots& slots) const {
  const optimizers::Spec& spec = options_.optimizer;
  if (!spec.clips() || trained_.empty()) return nullptr;
  std::vector<Value*> squares;
  for (const Trained& trained : trained_) {
    stand_at(builder, variables_[trained.variable].home, ir::Context::kAccumulateOuter);
    squares.push_back(optimizers::squared_norm(builder, slots[trained.accumulator_slot]));
  }
  stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
  Value* sum = squares.size() == 1 ? squares[0] : ops::build_op(builder, "add_n", squares)->result();
  return optimizers::gradient_factor(builder, spec, sum, streamed_values(trained_[0].group, slots),
                                     gradient_divisor());
}

std::vector<Value*> StepEmitter::states_of(const Trained& trained, const Slots& slots) {
  std::vector<Value*> values;
  for (int slot : trained.state_slots) values.push_back(slots[slot]);
  return values;
}

std::map<std::string, Value*> StepEmitter::streamed_values(int group, const Slots& slots) const {
  std::map<std::string, Value*> values;
  for (const auto& [name, value] : optimizers::streamed_hypers(options_.optimizer, group))
    values[name] = slots[hyper_slots_.at(optimizers::stream_name(group, name))];
  if (!options_.optimizer.loss_scaling.constant)
    values["loss_scaling"] = slots[hyper_slots_.at(optimizers::stream_name(0, "loss_scaling"))];
  return values;
}

double StepEmitter::gradient_divisor() const {
  return options_.mean_reduction ? static_cast<double>(options_.accumulation * options_.replicas) : 1.0;
}

}  // namespace ipu::frontends
