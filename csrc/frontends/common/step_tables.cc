// The variables and streams of a step, the slots they take, and which parameters are trained.
#include <fmt/core.h>

#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "autodiff/in_graph.h"
#include "frontends/common/step_emitter.h"
#include "ops/definition/op_def.h"
#include "support/error.h"
#include "support/half.h"

namespace ipu::frontends {

using ir::Value;

namespace {

// Values on which `loss` depends along a path that carries gradients.
std::unordered_set<const Value*> reached_by_gradient(const ir::Graph& graph, const Value* loss,
                                                     bool through_integers) {
  std::unordered_set<const Value*> reached{loss};
  for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at) {
    const ir::Op& op = **at;
    const ops::OpDef* def = ops::definition(op);
    if (op.settings.no_grad || (def != nullptr && def->gradient_kind == ops::GradientKind::kZero)) continue;
    bool is_reached = false;
    for (int i = 0; i < op.result_count(); ++i) is_reached |= reached.contains(op.result(i));
    if (!is_reached) continue;
    for (int i = 0; i < op.operand_count(); ++i)
      if (op.operand(i) != nullptr && autodiff::takes_gradient(op, i) &&
          autodiff::carries_gradient(op.operand(i)->type().dtype, through_integers))
        reached.insert(op.operand(i));
  }
  return reached;
}

// factor · value in f32, rounded to `dtype`.
ConstantPtr scaled_constant(const ConstantData& value, DType dtype, double factor) {
  auto data = std::make_shared<ConstantData>();
  data->dtype = dtype;
  data->shape = value.shape;
  const int64_t count = ir::Type{value.dtype, value.shape}.elements();
  data->bytes.resize(static_cast<size_t>(count) * (dtype == DType::kF16 ? sizeof(uint16_t) : sizeof(float)));
  for (int64_t i = 0; i < count; ++i) {
    float element = 0;
    if (value.dtype == DType::kF16) {
      uint16_t half = 0;
      std::memcpy(&half, value.bytes.data() + i * sizeof(half), sizeof(half));
      element = half_to_float(half);
    } else {
      std::memcpy(&element, value.bytes.data() + i * sizeof(element), sizeof(element));
    }
    element *= static_cast<float>(factor);
    if (dtype == DType::kF16) {
      const uint16_t half = float_to_half(element);
      std::memcpy(data->bytes.data() + i * sizeof(half), &half, sizeof(half));
    } else {
      std::memcpy(data->bytes.data() + i * sizeof(element), &element, sizeof(element));
    }
  }
  return data;
}

}  // namespace

int StepEmitter::new_slot() { return slot_count_++; }

ir::Variable& StepEmitter::variable(const std::string& name, const ir::Type& type, const std::string& role,
                                    const ir::Variable* like) {
  if (ir::Variable* known = module_.find_variable(name)) {
    IPU_CHECK(known->type == type,
              fmt::format("variable '{}' is {}, read as {}", name, to_string(known->type), to_string(type)));
    return *known;
  }
  ir::Variable added;
  added.name = name;
  added.type = type;
  added.role = role;
  if (like != nullptr) added.grouping = like->grouping, added.retrieval = like->retrieval;
  return module_.add_variable(std::move(added));
}

void StepEmitter::collect_variables() {
  std::map<std::string, int> known;
  for (size_t i = 0; i < forward_.inputs.size(); ++i) {
    const ForwardGraph::Input& input = forward_.inputs[i];
    variable_of_input_.push_back(-1);
    if (input.kind != ForwardGraph::Input::Kind::kVariable) continue;
    const Value& value = *forward_.graph->inputs()[i];
    auto [at, is_new] = known.try_emplace(input.name, static_cast<int>(variables_.size()));
    if (is_new) {
      ir::Variable& made = variable(input.name, value.type(), input.trainable ? "parameter" : "buffer");
      made.grouping = input.grouping;
      made.retrieval = input.retrieval;
      variables_.push_back({&made, home_of_input(value), value.type(), {}, input.is_parameter});
    }
    variable_of_input_[i] = at->second;
  }
  for (size_t i = 0; i < forward_.outputs.size(); ++i) {
    const ForwardGraph::Output& output = forward_.outputs[i];
    if (output.kind != ForwardGraph::Output::Kind::kState) continue;
    const Value& value = *forward_.graph->outputs()[i];
    auto [at, is_new] = known.try_emplace(output.name, static_cast<int>(variables_.size()));
    if (is_new)  // written but never read
      variables_.push_back(
          {&variable(output.name, value.type(), "buffer"), home_of_value(value), value.type(), {}});
    variables_[at->second].is_written = true;
    variable_of_output_[static_cast<int>(i)] = at->second;
  }
  settle_variables();
}

Residence StepEmitter::residence(const std::string& name, const TensorLocation& location,
                                 const ir::Type& whole, const ReplicaGrouping& grouping) {
  const auto own = options_.locations.find(name);
  return {own == options_.locations.end() ? location : own->second, whole,
          shard_group(grouping, options_.replicas, options_.replicas_of_process), slot_count_};
}

// Parameters live where the options say. What forward writes stays on chip, and so do variables that somebody
// else made.
void StepEmitter::settle_variables() {
  for (size_t v = 0; v < variables_.size(); ++v) {
    StepVariable& state = variables_[v];
    const bool may_move = state.is_parameter && !state.is_written && state.variable->remote_buffer.empty();
    // What may not move goes by no name that the options know.
    state.at = residence(may_move ? state.variable->name : "", may_move ? options_.weights : TensorLocation{},
                         state.type, state.variable->grouping);
    state.at.settle(*state.variable, module_, ipu_of(state.home));
    state.is_read_again = !is_pipelined_ || is_read_in_one_stage(static_cast<int>(v));
  }
}

// Elsewhere than in a pipeline a value may be loaded at any time. There the backward pass of the stage that
// reads a weight last comes first, and the weight lives in the stage that reads it first.
bool StepEmitter::is_read_in_one_stage(int variable) const {
  std::set<int64_t> stages;
  for (size_t i = 0; i < forward_.inputs.size(); ++i) {
    if (variable_of_input_[i] != variable) continue;
    for (const ir::Use& use : forward_.graph->inputs()[i]->uses())
      if (auto at = stage_of_block_.find(use.user->settings.block); at != stage_of_block_.end())
        stages.insert(at->second);
  }
  return stages.size() <= 1;
}

void StepEmitter::find_seed() {
  for (size_t i = 0; i < forward_.inputs.size(); ++i) {
    if (forward_.inputs[i].kind != ForwardGraph::Input::Kind::kSeed) continue;
    IPU_CHECK(seed_input_ < 0, "two seeds");
    seed_input_ = static_cast<int>(i);
    run_seed_ = new_slot();
    iteration_seed_ = new_slot();
  }
}

void StepEmitter::load_seed(ir::Builder& builder, Slots& slots) const {
  const bool has_own = options_.stochastic_rounding && options_.rounds_with_own_seed;
  if (has_own) {
    stand_at(builder, Home{plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    builder.host_load(*module_.find_stream(ir::kRoundingSeedStream));
  }
  if (seed_input_ < 0 && (has_own || !options_.stochastic_rounding)) return;
  stand_at(builder,
           seed_input_ < 0 ? Home{plan_.blocks.front(), nullptr}
                           : home_of_input(*forward_.graph->inputs()[seed_input_]),
           ir::Context::kAccumulateOuter);
  Value* seed = builder.host_load(*module_.find_stream(kSeedStream));
  if (seed_input_ < 0) return;
  derive_seed(builder, slots[run_seed_], seed, builder.replica_index(), ir::Context::kAccumulateOuter);
}

void StepEmitter::collect_training() {
  optimizers::check_spec(options_.optimizer);
  loss_ = options_.loss;
  if (loss_ == nullptr) loss_ = find_final_loss(*forward_.graph);
  std::map<int, int> trained_of_variable;
  autodiff::DifferentiateOptions wanted;
  wanted.through_integers = !is_floating_point(loss_->type().dtype);
  const std::unordered_set<const Value*> reached =
      reached_by_gradient(*forward_.graph, loss_, wanted.through_integers);
  wanted.provided = {loss_};
  for (size_t i = 0; i < forward_.inputs.size(); ++i) {
    const ForwardGraph::Input& input = forward_.inputs[i];
    Value* value = forward_.graph->inputs()[i];
    auto group = options_.optimizer.group_of.find(input.name);
    // As in torch, a parameter the loss does not depend on has no gradient and is left alone, decay
    // included.
    if (!reached.contains(value)) continue;
    if (variable_of_input_[i] < 0 || !input.trainable || group == options_.optimizer.group_of.end()) continue;
    auto [at, is_new] =
        trained_of_variable.try_emplace(variable_of_input_[i], static_cast<int>(trained_.size()));
    if (is_new) trained_.push_back(make_trained(variable_of_input_[i], group->second));
    wanted.required.push_back(value);
    trained_of_gradient_.push_back(at->second);
  }
  for (const StepOptions::ValueAnchor& anchor : options_.value_gradients) {
    if (anchor.value == loss_ || !reached.contains(anchor.value) ||
        std::find(wanted.required.begin(), wanted.required.end(), anchor.value) != wanted.required.end())
      continue;
    wanted.required.push_back(anchor.value);
    trained_of_gradient_.push_back(-1);
  }
  if (options_.optimizer.scaled_state) {
    previous_scaling_ = new_slot();
    previous_scaling_variable_ = &variable(kPreviousLossScaling, {DType::kF32, {}}, "optimizer_state");
    previous_scaling_variable_->initial = ir::make_scalar(DType::kF32, options_.optimizer.loss_scaling.value);
  }
  if (!wanted.required.empty()) gradient_ = autodiff::differentiate(*forward_.graph, wanted);
  collect_value_gradients();
}

void StepEmitter::collect_value_gradients() {
  std::unordered_map<const Value*, Value*> gradient_of;
  for (const auto& [forward, gradient] : gradient_.gradients) gradient_of.emplace(forward, gradient);
  for (const StepOptions::ValueAnchor& anchor : options_.value_gradients) {
    if (anchor.value == loss_) {
      value_gradients_.push_back(-1);
      continue;
    }
    const auto found = gradient_of.find(anchor.value);
    if (found == gradient_of.end())
      throw Error(
          ErrorCode::kAnchor,
          fmt::format(
              "no gradient: '{}' cannot be anchored, because no differentiable path leads from '{}' to "
              "the loss '{}', or none begins at an input or a variable before it.",
              anchor.stream, anchor.value->name(), loss_->name()));
    value_gradients_.push_back(static_cast<int>(gradient_.graph->outputs().size()));
    gradient_.graph->append_output(found->second);
  }
}

StepEmitter::Trained StepEmitter::make_trained(int index, int group) {
  const StepVariable& state = variables_[index];
  Trained trained{index, group, {}, {}, {}, false};
  // In PopART what is accumulator and state in one lies where accumulators do, and else there is none.
  const bool is_popart = options_.optimizer.is_popart;
  const bool accumulates = options_.accumulation > 1 || !is_popart;
  const TensorLocation& states = is_popart && accumulates && options_.optimizer.is_combined()
                                     ? options_.accumulators
                                     : options_.optimizer_state;
  trained.has_accumulator =
      options_.accumulation > 1 || optimizers::accumulates_in_state(options_.optimizer, group);
  trained.accumulator = residence(
      trained.has_accumulator ? kAccumulated + state.variable->name : "",
      trained.has_accumulator && accumulates ? options_.accumulators : TensorLocation{},
      {optimizers::accumulator_dtype(options_.optimizer, group), state.type.shape}, state.variable->grouping);
  trained.accumulator.settle("accumulator." + state.variable->name, module_, ipu_of(state.home));
  for (const optimizers::StateTensor& kept : optimizers::state_of(options_.optimizer, group)) {
    const ir::Type type{kept.dtype, kept.is_scalar ? Shape{} : state.type.shape};
    const std::string name = optimizers::state_name(kept, state.variable->name);
    const ir::Variable* before = module_.find_variable(name);  // the model says how it starts
    if (before != nullptr && before->type != type)
      throw Error(
          ErrorCode::kOptimizer,
          fmt::format("optimizer state does not fit: the model has '{}' as {}, and the optimizer keeps {}. "
                      "Store it in that type and shape, or remove it.",
                      name, to_string(before->type), to_string(type)));
    const ConstantPtr start = before != nullptr ? before->initial : nullptr;
    ir::Variable& added = variable(name, type, "optimizer_state", state.variable);
    added.initial = start != nullptr ? start : first_value(added, kept, *state.variable);
    trained.state_variables.push_back(&added);
    trained.states.push_back(residence(added.name, states, type, added.grouping));
    trained.states.back().settle(added, module_, ipu_of(state.home));
  }
  return trained;
}

ConstantPtr StepEmitter::first_value(const ir::Variable& variable, const optimizers::StateTensor& kept,
                                     const ir::Variable& weight) {
  if (kept.of_weight == 0.0) return ir::make_scalar(variable.type.dtype, kept.initial);
  if (weight.initial == nullptr) return nullptr;  // the host sends both
  return scaled_constant(*weight.initial, variable.type.dtype, kept.of_weight);
}

const ir::Stream& StepEmitter::stream(const std::string& name, ir::StreamDirection direction,
                                      const ir::Type& type, DType host) {
  IPU_CHECK(module_.find_stream(name) == nullptr, fmt::format("two streams are called '{}'", name));
  ir::Stream added;
  added.name = name;
  added.direction = direction;
  added.type = type;
  added.host_dtype = host;
  return module_.add_stream(std::move(added));
}

// A period counts device iterations.
void StepEmitter::thin_out(ir::Stream& stream, ir::OutputMode mode, int64_t period) const {
  stream.mode = mode;
  if (mode != ir::OutputMode::kEveryN) return;
  stream.period = period;
  stream.block = options_.counts_micro_batches ? 1 : options_.accumulation;
}

void StepEmitter::make_streams() {
  for (size_t i = 0; i < forward_.inputs.size(); ++i) {
    const ForwardGraph::Input& input = forward_.inputs[i];
    if (input.kind != ForwardGraph::Input::Kind::kHost) continue;
    stream(input.name, ir::StreamDirection::kHostToDevice, forward_.graph->inputs()[i]->type(),
           input.host_dtype);
  }
  for (size_t i = 0; i < forward_.outputs.size(); ++i) {
    const ForwardGraph::Output& output = forward_.outputs[i];
    if (output.kind != ForwardGraph::Output::Kind::kHost) continue;
    stream(output.name, ir::StreamDirection::kDeviceToHost, forward_.graph->outputs()[i]->type(),
           output.host_dtype);
    ir::Stream& added = *module_.find_stream(output.name);
    thin_out(added, output.mode, output.period);
  }
  const auto seed_stream = [&](const char* name) {
    stream(name, ir::StreamDirection::kHostToDevice, {DType::kU32, {2}}, DType::kU32);
    module_.find_stream(name)->constant = true;
  };
  if (seed_input_ >= 0 || (options_.stochastic_rounding && !options_.rounds_with_own_seed))
    seed_stream(kSeedStream);
  if (options_.stochastic_rounding && options_.rounds_with_own_seed) seed_stream(ir::kRoundingSeedStream);
  auto streamed = [&](int group, const std::string& hyper) {
    const std::string name = optimizers::stream_name(group, hyper);
    if (hyper_slots_.contains(name)) return;
    hyper_slots_[name] = new_slot();
    stream(name, ir::StreamDirection::kHostToDevice, {DType::kF32, {}}, DType::kF32);
    module_.find_stream(name)->constant = true;
  };
  make_anchor_streams();
  if (gradient_.graph == nullptr && options_.value_gradients.empty()) return;
  for (const Trained& trained : trained_)
    for (const auto& [name, value] : optimizers::streamed_hypers(options_.optimizer, trained.group))
      streamed(trained.group, name);
  if (!options_.optimizer.loss_scaling.constant) streamed(0, "loss_scaling");
}

std::set<int> StepEmitter::written_slots() const {
  std::set<int> slots;
  for (const StepVariable& state : variables_)
    if (state.is_written) slots.insert(state.at.slot());
  return slots;
}

}  // namespace ipu::frontends
