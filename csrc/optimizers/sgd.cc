// Stochastic gradient descent in its two variants (docs/optimizers.md has the equations).
// Separate: the gradients are summed into an accumulator, the velocity is the state.
// Combined: one tensor is accumulator and velocity in turn, so a changed hyper-parameter acts one update
// late. With clipping the gradients are summed on their own first: their norm must be known before they
// enter. PopART's combined variant with Nesterov does the same: its direction takes the gradients apart.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

// Without momentum and accumulation both variants are w - lr (1 - dampening) (g + weight_decay w), without
// state. The separate variant needs no velocity without momentum either, since it would be used once and
// forgotten, and PopART none ever.
bool has_no_state(const Spec& spec, int group) {
  return is_fixed(spec, group, "momentum", 0.0) &&
         (!spec.is_combined() || spec.is_popart || spec.accumulation == 1);
}

// The decay term of the combined state before the first update depends on the weight, so a flag tells whether
// it is in. PopART's state starts with it.
bool needs_start_flag(const Spec& spec, int group) {
  return spec.is_combined() && !spec.is_popart && !is_fixed(spec, group, "weight_decay", 0.0) &&
         !is_fixed(spec, group, "dampening", 1.0);
}

bool is_nesterov(const Spec& spec, int group) { return spec.groups.at(group).nesterov; }

double start_of_weight(const Spec& spec, int group) {
  const auto& hyper = spec.groups.at(group).hyper;
  const auto value = [&](const char* name, double otherwise) {
    const auto at = hyper.find(name);
    return at == hyper.end() ? otherwise : at->second.value;
  };
  return (1.0 - value("dampening", 0.0)) * value("weight_decay", 0.0) * value("velocity_scaling", 1.0);
}

std::vector<StateTensor> state(const Spec& spec, int group) {
  if (has_no_state(spec, group)) return {};
  if (!spec.is_combined()) return {{"Accl1", state_types(spec, group).first}};
  if (spec.is_popart) {
    const DType dtype = state_types(spec, group).first;
    std::vector<StateTensor> state{{"Accl", dtype, 0.0, false, start_of_weight(spec, group)}};
    if (is_nesterov(spec, group)) state.push_back({"Accl", dtype, 0.0, false, 0.0, "_nesterovGrad"});
    return state;
  }
  std::vector<StateTensor> state{{"Accl", DType::kF32}};
  if (needs_start_flag(spec, group)) state.push_back({"Started", DType::kBool, 0.0, true});
  return state;
}

// PopTorch's separate velocity is not scaled.
Scalar velocity_scaling(const Update& u) {
  return u.spec.is_popart || u.spec.is_combined() ? u.hyper("velocity_scaling") : Scalar(1.0);
}

Value* separate_velocity(const Update& u, Value* gradient) {
  return u.blend(u.state(0), u.hyper("momentum"), gradient,
                 (1.0 - u.hyper("dampening")) * velocity_scaling(u));
}

// Nesterov's direction looks ahead of the velocity; it is as large as the velocity.
Value* look_ahead(const Update& u, Value* gradient, Value* velocity) {
  return u.op("add", multiply(u.builder, gradient, velocity_scaling(u)),
              multiply(u.builder, velocity, u.hyper("momentum")));
}

// Without momentum: w - lr (1 - dampening) (g + weight_decay w).
UpdateResult plain(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  Value* gradient;
  if (u.input.clip_factor == nullptr) {
    gradient = u.gradient_with_decay(weight);
  } else {  // what is clipped has the loss scaling in it
    gradient = divide(builder, multiply(builder, u.input.measured, Scalar(&builder, u.input.clip_factor)),
                      u.hyper.loss_scaling() * divisor_left(u.spec, u.group, u.gradient_divisor));
    const Scalar decay = u.hyper("weight_decay");
    if (!decay.is(0.0)) gradient = u.op("add", gradient, multiply(builder, weight, decay));
  }
  const Scalar undamped = 1.0 - u.hyper("dampening");
  return u.result(u.op("sub", weight, multiply(builder, gradient, u.hyper("lr") * undamped)), {});
}

UpdateResult separate(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  const bool reuses = u.input.clip_factor != nullptr && !is_nesterov(u.spec, u.group);
  Value* gradient = reuses ? nullptr : u.gradient_with_decay(weight);
  Value* velocity = reuses ? u.input.measured : separate_velocity(u, gradient);
  Value* direction = velocity;
  if (u.input.clip_factor != nullptr)
    direction = multiply(builder, u.input.measured, Scalar(&builder, u.input.clip_factor));
  else if (is_nesterov(u.spec, u.group))
    direction = look_ahead(u, gradient, velocity);
  return u.result(u.op("sub", weight, multiply(builder, direction, u.hyper("lr") / velocity_scaling(u))),
                  {velocity});
}

Scalar combined_decay(const Hypers& hyper) {
  return (1.0 - hyper("dampening")) * hyper("weight_decay") * hyper("velocity_scaling");
}

// The state after all micro-batches.
Value* combined_velocity(const Update& u) {
  ir::Builder& builder = u.builder;
  if (accumulates_in_state(u.spec, u.group)) return cast(builder, u.input.gradient, DType::kF32);
  Value* start = cast(
      builder, combined_start(builder, u.spec, u.group, {u.input.weight, u.input.state, u.input.streamed}),
      DType::kF32);
  return u.op("add", start, multiply(builder, u.gradient(), combined_share(u.hyper)));
}

bool takes_gradients_apart(const Spec& spec, int group) {
  return spec.is_popart && spec.is_combined() && is_nesterov(spec, group);
}

Value* combined_direction(const Update& u, Value* velocity) {
  if (!takes_gradients_apart(u.spec, u.group)) return velocity;
  return look_ahead(u, u.gradient_with_decay(u.weight()), velocity);
}

// With accumulation, PopART's replicas each have the velocity in the sum that is reduced over them: it is as many
// times larger, and so is what is clipped.
double velocities_in_sum(const Spec& spec) {
  return spec.is_popart && spec.accumulation > 1 ? static_cast<double>(spec.replicas) : 1.0;
}

UpdateResult combined(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  Value* velocity = combined_velocity(u);
  Value* direction = u.input.clip_factor == nullptr
                         ? combined_direction(u, velocity)
                         : multiply(builder, u.input.measured,
                                    Scalar(&builder, u.input.clip_factor) / velocities_in_sum(u.spec));
  Value* updated =
      u.op("sub", weight, multiply(builder, direction, u.hyper("lr") / u.hyper("velocity_scaling")));
  Value* next = multiply(builder, velocity, u.hyper("momentum"));
  const Scalar decay = combined_decay(u.hyper);
  if (!decay.is(0.0)) next = u.op("add", next, multiply(builder, updated, decay));
  std::vector<Value*> state{next};
  if (needs_start_flag(u.spec, u.group)) state.push_back(builder.scalar(DType::kBool, 1.0));
  if (takes_gradients_apart(u.spec, u.group))  // it is empty between updates
    state.push_back(builder.splat(u.input.state[1]->type(), 0.0));
  return u.result(updated, state);
}

UpdateResult update(const Update& u) {
  if (u.input.state.empty()) return plain(u);
  return u.spec.is_combined() ? combined(u) : separate(u);
}

Value* measure(const Update& u) {
  if (u.input.state.empty()) return cast(u.builder, u.input.gradient, DType::kF32);
  if (u.spec.is_combined())
    return multiply(u.builder, combined_direction(u, combined_velocity(u)), velocities_in_sum(u.spec));
  Value* gradient = u.gradient_with_decay(u.weight());
  Value* velocity = separate_velocity(u, gradient);
  return is_nesterov(u.spec, u.group) ? look_ahead(u, gradient, velocity) : velocity;
}

}  // namespace

bool accumulates_in_state(const Spec& spec, int group) {
  return spec.is_combined() && !spec.clips() && !has_no_state(spec, group) &&
         !takes_gradients_apart(spec, group);
}

// The combined velocity is a sum in all kinds of means.
bool averages_replicas(const Spec& spec, int group) {
  return spec.running_mean_of_replicas && (!spec.is_combined() || has_no_state(spec, group));
}

Value* combined_start(ir::Builder& builder, const Spec& spec, int group, const AccumulationInput& input) {
  if (!needs_start_flag(spec, group)) return input.state[0];
  const Hypers hyper(builder, spec, group, input.streamed);
  Value* start = multiply(builder, cast(builder, input.weight, DType::kF32), combined_decay(hyper));
  return ops::build(builder, "where", {input.state[1], input.state[0], start});
}

Scalar combined_share(const Hypers& hyper) { return (1.0 - hyper("dampening")) * hyper("velocity_scaling"); }

const Rule kSgdRule{{"lr"}, &state, &update, &measure};

}  // namespace ipu::optimizers
