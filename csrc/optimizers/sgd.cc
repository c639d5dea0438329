// Stochastic gradient descent in its two variants (docs/optimizers.md has the equations).
// Separate: the gradients are summed into an accumulator, the velocity is the state.
// Combined: one tensor is accumulator and velocity in turn, so a changed hyper-parameter acts one update
// late. With clipping the gradients are summed on their own first: their norm must be known before they
// enter.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

// Without momentum and accumulation both variants are w - lr (1 - dampening) (g + weight_decay w), without
// state. The separate variant needs no velocity without momentum either, since it would be used once and
// forgotten.
bool has_no_state(const Spec& spec, int group) {
  return is_fixed(spec, group, "momentum", 0.0) && (!spec.is_combined() || spec.accumulation == 1);
}

// The decay term of the combined state before the first update depends on the weight, so a flag tells whether
// it is in.
bool needs_start_flag(const Spec& spec, int group) {
  return spec.is_combined() && !is_fixed(spec, group, "weight_decay", 0.0) &&
         !is_fixed(spec, group, "dampening", 1.0);
}

std::vector<StateTensor> state(const Spec& spec, int group) {
  if (has_no_state(spec, group)) return {};
  if (!spec.is_combined()) return {{"Accl1", spec.velocity_dtype}};
  std::vector<StateTensor> state{{"Accl", DType::kF32}};
  if (needs_start_flag(spec, group)) state.push_back({"Started", DType::kBool, 0.0, true});
  return state;
}

UpdateResult separate(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  Value* gradient = u.gradient_with_decay(weight);
  const Scalar undamped = 1.0 - u.hyper("dampening");
  const Scalar lr = u.hyper("lr");
  if (u.input.state.empty())
    return u.result(u.op("sub", weight, multiply(builder, gradient, lr * undamped)), {});
  Value* velocity = u.blend(u.state(0), u.hyper("momentum"), gradient, undamped);
  Value* direction = velocity;
  if (u.spec.groups[u.group].nesterov)
    direction = u.op("add", gradient, multiply(builder, velocity, u.hyper("momentum")));
  return u.result(u.op("sub", weight, multiply(builder, direction, lr)), {velocity});
}

Scalar combined_decay(const Hypers& hyper) {
  return (1.0 - hyper("dampening")) * hyper("weight_decay") * hyper("velocity_scaling");
}

UpdateResult combined(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  Value* velocity = cast(builder, u.input.gradient, DType::kF32);
  if (!accumulates_in_state(u.spec, u.group)) {
    Value* start =
        combined_start(builder, u.spec, u.group, {u.input.weight, u.input.state, u.input.streamed});
    velocity = u.op("add", start, multiply(builder, u.gradient(), combined_share(u.hyper)));
  }
  Value* updated =
      u.op("sub", weight, multiply(builder, velocity, u.hyper("lr") / u.hyper("velocity_scaling")));
  Value* next = multiply(builder, velocity, u.hyper("momentum"));
  const Scalar decay = combined_decay(u.hyper);
  if (!decay.is(0.0)) next = u.op("add", next, multiply(builder, updated, decay));
  std::vector<Value*> state{next};
  if (needs_start_flag(u.spec, u.group)) state.push_back(builder.scalar(DType::kBool, 1.0));
  return u.result(updated, state);
}

UpdateResult update(const Update& u) {
  return u.spec.is_combined() && !has_no_state(u.spec, u.group) ? combined(u) : separate(u);
}

}  // namespace

bool accumulates_in_state(const Spec& spec, int group) {
  return spec.is_combined() && !spec.clips() && !has_no_state(spec, group);
}

Value* combined_start(ir::Builder& builder, const Spec& spec, int group, const AccumulationInput& input) {
  if (!needs_start_flag(spec, group)) return input.state[0];
  const Hypers hyper(builder, spec, group, input.streamed);
  Value* start = multiply(builder, cast(builder, input.weight, DType::kF32), combined_decay(hyper));
  return ops::build(builder, "where", {input.state[1], input.state[0], start});
}

Scalar combined_share(const Hypers& hyper) { return (1.0 - hyper("dampening")) * hyper("velocity_scaling"); }

const Rule kSgdRule{{"lr"}, &state, &update};

}  // namespace ipu::optimizers
