// Builds `main` around a captured forward graph. State that changes in a loop (weights, optimizer state,
// buffers, accumulators) lives in numbered slots; repeat() turns the slots a body changes into carried values
// of a loop and the ones it only reads into invariants, so that straight code, loops and pipelines are
// emitted by the same functions. Every op gets the block of what it serves (a parameter's first reader, an
// output's producer); `place` does the rest.
#include "frontends/common/step_builder.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "autodiff/differentiate.h"
#include "autodiff/in_graph.h"
#include "frontends/common/repeat.h"
#include "frontends/common/replicas.h"
#include "frontends/common/stages.h"
#include "ir/builder.h"
#include "ir/structure.h"
#include "ops/build.h"
#include "support/error.h"

namespace ipu::frontends {
namespace {

using ir::Value;

// Inputs of the graph on which `loss` depends along a path that carries gradients.
std::unordered_set<const Value*> inputs_reached_by_gradient(const ir::Graph& graph, const Value* loss) {
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
          is_floating_point(op.operand(i)->type().dtype))
        reached.insert(op.operand(i));
  }
  return reached;
}

class StepBuilder {
 public:
  StepBuilder(const ForwardGraph& forward, const StepOptions& options)
      : forward_(forward), options_(options), module_(*forward.graph->module()) {
    optimizers::Spec& spec = options_.optimizer;
    spec.accumulation = options.accumulation;
    spec.running_mean = options.mean_reduction && options.accumulation > 1 && !spec.is_combined() &&
                        (options.running_mean || spec.accum_dtype == DType::kF16);
  }

  void build() {
    check();
    plan_ = plan_stages(*forward_.graph, options_.places);
    check_pipeline_fill(plan_, options_);
    write_attributes(plan_, options_, module_);
    if (options_.training && options_.recomputation != 0)
      module_.attributes.set("auto_recomputation", options_.recomputation);
    is_pipelined_ = options_.schedule == Schedule::kPipelined && plan_.forward_stages > 1;
    for (size_t i = 0; i < plan_.blocks.size(); ++i) stage_of_block_[plan_.blocks[i]] = plan_.stages[i];
    collect_variables();
    find_seed();
    if (options_.training) collect_training();
    make_streams();
    emit_main();
    for (const auto& graph : module_.graphs()) autodiff::drop_custom_gradients(*graph);
  }

 private:
  struct Home {  // where the ops that serve a value stand
    std::string block;
    ir::Location location;
  };
  struct State {
    ir::Variable* variable;
    Home home;
    int slot;
    bool is_written = false;  // by the forward graph
  };
  struct Trained {
    int variable;  // index into variables_
    int group;
    std::vector<ir::Variable*> state_variables;
    std::vector<int> state_slots;
    int accumulator_slot;
    bool has_accumulator;  // else the slot takes the gradient itself
  };

  void check() const {
    IPU_CHECK(forward_.inputs.size() == forward_.graph->inputs().size(),
              "inputs are not described one by one");
    IPU_CHECK(options_.training || options_.accumulation == 1, "accumulation is for training");
    for (const ForwardGraph::Output& output : forward_.outputs)
      if (output.kind == ForwardGraph::Output::Kind::kHost) check_period(output.mode, output.period);
    for (const std::vector<StepOptions::Anchor>* anchors :
         {&options_.gradient_anchors, &options_.update_anchors})
      for (const StepOptions::Anchor& anchor : *anchors) check_period(anchor.mode, anchor.period);
  }

  void check_period(ir::OutputMode mode, int64_t period) const {
    if (mode != ir::OutputMode::kEveryN) return;
    if (period >= 1 && options_.device_iterations % period == 0) return;
    throw Error(ErrorCode::kOutputPeriod,
                "output period does not fit: OutputMode.EveryN with period " + std::to_string(period) +
                    " needs a period that divides deviceIterations, which is " +
                    std::to_string(options_.device_iterations) + ". Choose such a period, or OutputMode.All.",
                kPopartException);
  }

  // --- what stands where
  // -------------------------------------------------------------------------------------

  Home home_of_op(const ir::Op& op) const {
    auto at = stage_of_block_.find(op.settings.block);
    return {at == stage_of_block_.end() ? plan_.blocks.front() : op.settings.block, op.location};
  }

  // An input is served in the earliest stage that reads it; equal stages: by the first op captured.
  Home home_of_input(const Value& input) const {
    const ir::Op* best = nullptr;
    auto rank = [&](const ir::Op& op) {
      auto at = stage_of_block_.find(op.settings.block);
      return std::pair(at == stage_of_block_.end() ? int64_t{0} : at->second, op.id());
    };
    for (const ir::Use& use : input.uses())
      if (best == nullptr || rank(*use.user) < rank(*best)) best = use.user;
    return best != nullptr ? home_of_op(*best) : Home{plan_.blocks.front(), nullptr};
  }

  Home home_of_value(const Value& value) const {
    return value.producer() != nullptr ? home_of_op(*value.producer()) : home_of_input(value);
  }

  static void stand_at(ir::Builder& builder, const Home& home, ir::Context context) {
    builder.settings = {};
    builder.settings.block = home.block;
    builder.settings.context = context;
    builder.location = home.location;
  }

  // --- tables
  // ------------------------------------------------------------------------------------------------

  int new_slot() { return slot_count_++; }

  ir::Variable& variable(const std::string& name, const ir::Type& type, const std::string& role,
                         const ir::Variable* like = nullptr) {
    if (ir::Variable* known = module_.find_variable(name)) {
      IPU_CHECK(known->type == type,
                "variable '" + name + "' is " + to_string(known->type) + ", read as " + to_string(type));
      return *known;
    }
    ir::Variable added;
    added.name = name;
    added.type = type;
    added.role = role;
    if (like != nullptr) added.grouping = like->grouping, added.retrieval = like->retrieval;
    return module_.add_variable(std::move(added));
  }

  void collect_variables() {
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
        variables_.push_back({&made, home_of_input(value), new_slot()});
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
            {&variable(output.name, value.type(), "buffer"), home_of_value(value), new_slot()});
      variables_[at->second].is_written = true;
      variable_of_output_[static_cast<int>(i)] = at->second;
    }
  }

  void find_seed() {
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      if (forward_.inputs[i].kind != ForwardGraph::Input::Kind::kSeed) continue;
      IPU_CHECK(seed_input_ < 0, "two seeds");
      seed_input_ = static_cast<int>(i);
      run_seed_ = new_slot();
      iteration_seed_ = new_slot();
    }
  }

  // The seed of number `counter` (nullptr: 0) below `seed`.
  void derive_seed(ir::Builder& builder, Value*& derived, Value* seed, Value* counter,
                   ir::Context context) const {
    stand_at(builder, home_of_input(*forward_.graph->inputs()[seed_input_]), context);
    if (counter == nullptr) counter = builder.scalar(DType::kI32, 0);
    derived = ops::build(builder, "random_seed", {seed, counter}, {}, "seed");
  }

  // Replicas draw different numbers.
  void load_seed(ir::Builder& builder, Slots& slots) const {
    if (seed_input_ < 0) return;
    stand_at(builder, home_of_input(*forward_.graph->inputs()[seed_input_]), ir::Context::kAccumulateOuter);
    Value* seed = builder.host_load(*module_.find_stream(kSeedStream));
    derive_seed(builder, slots[run_seed_], seed, builder.replica_index(), ir::Context::kAccumulateOuter);
  }

  void collect_training() {
    optimizers::check_spec(options_.optimizer);
    loss_ = options_.loss;
    if (loss_ == nullptr) loss_ = find_final_loss(*forward_.graph);
    const std::unordered_set<const Value*> reached = inputs_reached_by_gradient(*forward_.graph, loss_);
    std::map<int, int> trained_of_variable;
    autodiff::DifferentiateOptions wanted;
    wanted.provided = {loss_};
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      const ForwardGraph::Input& input = forward_.inputs[i];
      Value* value = forward_.graph->inputs()[i];
      auto group = options_.optimizer.group_of.find(input.name);
      // As in torch, a parameter the loss does not depend on has no gradient and is left alone, decay
      // included.
      if (variable_of_input_[i] < 0 || !input.trainable || group == options_.optimizer.group_of.end() ||
          !reached.contains(value))
        continue;
      auto [at, is_new] =
          trained_of_variable.try_emplace(variable_of_input_[i], static_cast<int>(trained_.size()));
      if (is_new) trained_.push_back(make_trained(variable_of_input_[i], group->second));
      wanted.required.push_back(value);
      trained_of_gradient_.push_back(at->second);
    }
    if (!trained_.empty()) gradient_ = autodiff::differentiate(*forward_.graph, wanted);
  }

  Trained make_trained(int index, int group) {
    const State& state = variables_[index];
    Trained trained{index, group, {}, {}, new_slot(), false};
    trained.has_accumulator =
        options_.accumulation > 1 || optimizers::accumulates_in_state(options_.optimizer, group);
    for (const optimizers::State& kept : optimizers::state_of(options_.optimizer, group)) {
      const ir::Type type{kept.dtype, kept.is_scalar ? Shape{} : state.variable->type.shape};
      ir::Variable& added = variable(optimizers::state_name(kept, state.variable->name), type,
                                     "optimizer_state", state.variable);
      added.initial = filled(type, kept.initial);
      trained.state_variables.push_back(&added);
      trained.state_slots.push_back(new_slot());
    }
    return trained;
  }

  // Equal initial values share one constant.
  ConstantPtr filled(const ir::Type& type, double value) {
    ConstantPtr& known = filled_[{type.dtype, type.shape, value}];
    if (known == nullptr) {
      const ConstantPtr one = ir::make_scalar(type.dtype, value);
      auto data = std::make_shared<ConstantData>();
      data->dtype = type.dtype;
      data->shape = type.shape;
      data->bytes.reserve(type.bytes());
      for (int64_t i = 0; i < type.elements(); ++i)
        data->bytes.insert(data->bytes.end(), one->bytes.begin(), one->bytes.end());
      known = data;
    }
    return known;
  }

  const ir::Stream& stream(const std::string& name, ir::StreamDirection direction, const ir::Type& type,
                           DType host) {
    IPU_CHECK(module_.find_stream(name) == nullptr, "two streams are called '" + name + "'");
    ir::Stream added;
    added.name = name;
    added.direction = direction;
    added.type = type;
    added.host_dtype = host;
    return module_.add_stream(std::move(added));
  }

  void make_streams() {
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
      added.mode = output.mode;
      added.period = output.period;
    }
    if (seed_input_ >= 0) {
      stream(kSeedStream, ir::StreamDirection::kHostToDevice, {DType::kU32, {2}}, DType::kU32);
      module_.find_stream(kSeedStream)->constant = true;
    }
    auto streamed = [&](int group, const std::string& hyper) {
      const std::string name = optimizers::stream_name(group, hyper);
      if (hyper_slots_.contains(name)) return;
      hyper_slots_[name] = new_slot();
      stream(name, ir::StreamDirection::kHostToDevice, {DType::kF32, {}}, DType::kF32);
      module_.find_stream(name)->constant = true;
    };
    make_anchor_streams();
    if (trained_.empty()) return;
    for (const Trained& trained : trained_)
      for (const auto& [name, value] : optimizers::streamed_hypers(options_.optimizer, trained.group))
        streamed(trained.group, name);
    if (!options_.optimizer.loss_scaling.constant) streamed(0, "loss_scaling");
  }

  void make_anchor_streams() {
    for (const std::vector<StepOptions::Anchor>* anchors :
         {&options_.gradient_anchors, &options_.update_anchors}) {
      for (const StepOptions::Anchor& anchor : *anchors) {
        const ir::Variable* parameter = module_.find_variable(anchor.parameter);
        const bool is_trained = std::any_of(trained_.begin(), trained_.end(), [&](const Trained& t) {
          return variables_[t.variable].variable == parameter;
        });
        if (!is_trained)
          throw Error(ErrorCode::kAnchor, "no gradient: parameter '" + anchor.parameter +
                                              "' is not trained, so nothing of it can be anchored.");
        stream(anchor.stream, ir::StreamDirection::kDeviceToHost, parameter->type, parameter->type.dtype);
        ir::Stream& added = *module_.find_stream(anchor.stream);
        added.mode = anchor.mode;
        added.period = anchor.period;
      }
    }
  }

  // The builder stands where the value belongs.
  void store_anchors(ir::Builder& builder, const std::vector<StepOptions::Anchor>& anchors,
                     const Trained& trained, Value* value) {
    for (const StepOptions::Anchor& anchor : anchors)
      if (anchor.parameter == variables_[trained.variable].variable->name)
        builder.host_store(*module_.find_stream(anchor.stream), value);
  }

  // An updated weight has an item for each micro-batch of its update, as every other anchor.
  void store_updated(ir::Builder& builder, Slots& slots, const Trained& trained) {
    const State& state = variables_[trained.variable];
    const std::vector<StepOptions::Anchor>& anchors = options_.update_anchors;
    if (std::none_of(anchors.begin(), anchors.end(), [&](const StepOptions::Anchor& anchor) {
          return anchor.parameter == state.variable->name;
        }))
      return;
    repeat(builder, slots, options_.accumulation, {}, false, "micro_batch_of_update",
           [&](ir::Builder& inner, Slots& values, Value*) {
             stand_at(inner, state.home, ir::Context::kAccumulateOuter);
             store_anchors(inner, anchors, trained, values[state.slot]);
           });
    stand_at(builder, state.home, ir::Context::kAccumulateOuter);
  }

  std::map<std::string, Value*> streamed_values(int group, const Slots& slots) const {
    std::map<std::string, Value*> values;
    for (const auto& [name, value] : optimizers::streamed_hypers(options_.optimizer, group))
      values[name] = slots[hyper_slots_.at(optimizers::stream_name(group, name))];
    if (!options_.optimizer.loss_scaling.constant)
      values["loss_scaling"] = slots[hyper_slots_.at(optimizers::stream_name(0, "loss_scaling"))];
    return values;
  }

  std::set<int> written_slots() const {
    std::set<int> slots;
    for (const State& state : variables_)
      if (state.is_written) slots.insert(state.slot);
    return slots;
  }

  // --- the program
  // -------------------------------------------------------------------------------------------

  void emit_main() {
    ir::Graph* main = module_.add_graph("main");
    module_.entry_points["main"] = main->name();
    ir::Builder builder(main);
    Slots slots(slot_count_, nullptr);
    for (const State& state : variables_) {
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

    for (const State& state : variables_) {
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

  // One weight update: accumulation over micro-batches, then the rules.
  void emit_device_iteration(ir::Builder& builder, Slots& slots, Value* index) {
    if (seed_input_ >= 0)
      derive_seed(builder, slots[iteration_seed_], slots[run_seed_], index, ir::Context::kAccumulateOuter);
    std::set<int> changed = written_slots();
    for (const Trained& trained : trained_) {
      if (!trained.has_accumulator) continue;
      const State& state = variables_[trained.variable];
      stand_at(builder, state.home, ir::Context::kAccumulateOuter);
      slots[trained.accumulator_slot] = optimizers::begin_accumulation(
          builder, options_.optimizer, trained.group,
          {slots[state.slot], states_of(trained, slots), streamed_values(trained.group, slots)});
      if (optimizers::accumulates_in_state(options_.optimizer, trained.group))
        slots[trained.accumulator_slot] =
            share_in_group(builder, slots[trained.accumulator_slot], *state.variable, options_.replicas);
      changed.insert(trained.accumulator_slot);
    }
    repeat(
        builder, slots, options_.accumulation, changed, is_pipelined_, "micro_batch",
        [this](ir::Builder& inner, Slots& values, Value* index) { emit_micro_batch(inner, values, index); });
    for (const Trained& trained : trained_) {
      const State& state = variables_[trained.variable];
      stand_at(builder, state.home, ir::Context::kAccumulateOuter);
      slots[trained.accumulator_slot] =
          sum_over_group(builder, slots[trained.accumulator_slot], *state.variable, options_.replicas);
    }
    Value* gradient_factor = emit_clipping(builder, slots);
    for (const Trained& trained : trained_) {
      const State& state = variables_[trained.variable];
      stand_at(builder, state.home, ir::Context::kAccumulateOuter);
      const double relative = gradient_divisor(trained_[0]) / gradient_divisor(trained);
      Value* factor = gradient_factor;
      if (factor != nullptr && relative != 1.0)
        factor = ops::build(builder, "mul", {factor, builder.scalar(DType::kF32, relative)});
      const optimizers::UpdateResult result =
          optimizers::build_update(builder, options_.optimizer, trained.group,
                                   {slots[state.slot], slots[trained.accumulator_slot],
                                    states_of(trained, slots), streamed_values(trained.group, slots), factor},
                                   gradient_divisor(trained));
      slots[state.slot] = result.weight;
      store_updated(builder, slots, trained);
      for (size_t i = 0; i < trained.state_slots.size(); ++i) slots[trained.state_slots[i]] = result.state[i];
      slots[trained.accumulator_slot] = nullptr;
    }
  }

  // The common factor of all gradients that keeps their global norm in bounds; nullptr without clipping.
  Value* emit_clipping(ir::Builder& builder, const Slots& slots) const {
    const optimizers::Spec& spec = options_.optimizer;
    if (!spec.clips() || trained_.empty()) return nullptr;
    std::vector<Value*> squares;
    for (const Trained& trained : trained_) {
      stand_at(builder, variables_[trained.variable].home, ir::Context::kAccumulateOuter);
      Value* square = optimizers::squared_norm(builder, slots[trained.accumulator_slot]);
      const double relative = gradient_divisor(trained_[0]) / gradient_divisor(trained);
      if (relative != 1.0)
        square = ops::build(builder, "mul", {square, builder.scalar(DType::kF32, relative * relative)});
      squares.push_back(square);
    }
    stand_at(builder, {plan_.blocks.front(), nullptr}, ir::Context::kAccumulateOuter);
    Value* sum = squares.size() == 1 ? squares[0] : ops::build_op(builder, "add_n", squares)->result();
    return optimizers::gradient_factor(builder, spec, sum, streamed_values(trained_[0].group, slots),
                                       gradient_divisor(trained_[0]));
  }

  double gradient_divisor(const Trained& trained) const {
    if (!options_.mean_reduction) return 1.0;
    return static_cast<double>(options_.accumulation *
                               replicas_in_group(*variables_[trained.variable].variable, options_.replicas));
  }

  static std::vector<Value*> states_of(const Trained& trained, const Slots& slots) {
    std::vector<Value*> values;
    for (int slot : trained.state_slots) values.push_back(slots[slot]);
    return values;
  }

  void emit_micro_batch(ir::Builder& builder, Slots& slots, Value* index) {
    std::vector<Value*> arguments;
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      if (variable_of_input_[i] >= 0) {
        arguments.push_back(slots[variables_[variable_of_input_[i]].slot]);
      } else if (static_cast<int>(i) == seed_input_) {
        arguments.push_back(nullptr);
        derive_seed(builder, arguments.back(), slots[iteration_seed_], index, ir::Context::kForward);
      } else {
        stand_at(builder, home_of_input(*forward_.graph->inputs()[i]), ir::Context::kForward);
        arguments.push_back(builder.host_load(*module_.find_stream(forward_.inputs[i].name)));
      }
    }
    builder.settings = {};
    builder.location = nullptr;
    const std::vector<Value*> results = builder.call(forward_.graph, arguments);
    for (size_t i = 0; i < forward_.outputs.size(); ++i) {
      if (forward_.outputs[i].kind == ForwardGraph::Output::Kind::kHost) {
        stand_at(builder, home_of_value(*forward_.graph->outputs()[i]), ir::Context::kForward);
        builder.host_store(*module_.find_stream(forward_.outputs[i].name), results[i]);
      } else {
        slots[variables_[variable_of_output_.at(static_cast<int>(i))].slot] = results[i];
      }
    }
    if (!trained_.empty()) emit_backward(builder, slots, arguments, results, index);
  }

  Value* loss_gradient(ir::Builder& builder, const Slots& slots) const {
    stand_at(builder, home_of_value(*loss_), ir::Context::kBackward);
    const optimizers::HyperParameter& scaling = options_.optimizer.loss_scaling;
    if (scaling.constant) return builder.splat(loss_->type(), scaling.value);
    Value* seed = slots[hyper_slots_.at(optimizers::stream_name(0, "loss_scaling"))];
    if (loss_->type().dtype != DType::kF32)
      seed = ops::build(builder, "cast", {seed}, {{"dtype", loss_->type().dtype}});
    if (!loss_->type().shape.empty())
      seed = ops::build(builder, "expand", {seed}, {{"shape", loss_->type().shape}});
    return seed;
  }

  void emit_backward(ir::Builder& builder, Slots& slots, const std::vector<Value*>& arguments,
                     const std::vector<Value*>& results, Value* index) {
    std::unordered_map<const Value*, int> output_index;
    for (size_t i = 0; i < results.size(); ++i)
      output_index.try_emplace(forward_.graph->outputs()[i], static_cast<int>(i));
    std::vector<Value*> operands;
    for (const autodiff::Connection& input : gradient_.expected_inputs) {
      if (input.kind == autodiff::ConnectionKind::kGradient) {
        operands.push_back(loss_gradient(builder, slots));
      } else if (input.forward->producer() == nullptr) {
        operands.push_back(arguments[input.forward->index()]);
      } else {
        operands.push_back(results[output_index.at(input.forward)]);
      }
    }
    builder.settings = {};
    builder.settings.context = ir::Context::kBackward;
    builder.location = nullptr;
    const std::vector<Value*> gradients = builder.call(gradient_.graph, operands);
    for (size_t t = 0; t < trained_.size(); ++t) {
      const Trained& trained = trained_[t];
      stand_at(builder, variables_[trained.variable].home, ir::Context::kBackward);
      // A variable that is several inputs of the graph gets the sum of their gradients.
      std::vector<Value*> parts;
      for (size_t i = 0; i < gradients.size(); ++i)
        if (trained_of_gradient_[i] == static_cast<int>(t)) parts.push_back(gradients[i]);
      Value* gradient = parts.size() == 1 ? parts[0] : ops::build_op(builder, "add_n", parts)->result();
      store_anchors(builder, options_.gradient_anchors, trained, gradient);
      Value*& accumulator = slots[trained.accumulator_slot];
      accumulator = trained.has_accumulator
                        ? optimizers::accumulate(builder, options_.optimizer, trained.group, accumulator,
                                                 gradient, streamed_values(trained.group, slots),
                                                 gradient_divisor(trained), index)
                        : gradient;
    }
  }

  const ForwardGraph& forward_;
  StepOptions options_;
  ir::Module& module_;
  StagePlan plan_;
  std::map<std::string, int64_t> stage_of_block_;
  bool is_pipelined_ = false;
  int slot_count_ = 0;
  std::vector<State> variables_;
  std::vector<int> variable_of_input_;     // -1: a host input
  std::map<int, int> variable_of_output_;  // written state only
  Value* loss_ = nullptr;
  autodiff::GradInfo gradient_;
  std::vector<Trained> trained_;
  std::vector<int> trained_of_gradient_;  // of each output of the gradient graph
  std::map<std::string, int> hyper_slots_;
  int seed_input_ = -1;                      // of the forward graph
  int run_seed_ = -1, iteration_seed_ = -1;  // slots: of the run and replica, and of the device iteration
  std::map<std::tuple<DType, Shape, double>, ConstantPtr> filled_;
};

}  // namespace

void build_step(const ForwardGraph& forward, const StepOptions& options) {
  StepBuilder(forward, options).build();
}

}  // namespace ipu::frontends
