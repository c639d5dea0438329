// Stochastic gradient descent in its two variants (docs/optimizers.md has the equations by number).
// Separate: the gradients are summed into an accumulator, the velocity is the state.
// Combined: one tensor is accumulator and velocity in turn, so a changed hyper-parameter acts one update
// late.
#include "ops/build.h"
#include "optimizers/optimizer.h"
#include "optimizers/scalar.h"
#include "support/error.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

struct Hyper {
  Scalar lr, momentum, dampening, weight_decay, velocity_scaling, loss_scaling;
};

Hyper hyper_of(ir::Builder& builder, const Spec& spec, int group,
               const std::map<std::string, Value*>& streamed) {
  auto get = [&](const std::string& name, const HyperParameter& parameter) {
    if (parameter.constant) return Scalar(parameter.value);
    auto at = streamed.find(name);
    IPU_CHECK(at != streamed.end(), "no streamed value for hyper-parameter '" + name + "'");
    return Scalar(&builder, at->second);
  };
  auto of_group = [&](const std::string& name, double fallback) {
    const auto& hyper = spec.groups.at(group).hyper;
    auto at = hyper.find(name);
    return at == hyper.end() ? Scalar(fallback) : get(name, at->second);
  };
  return {of_group("lr", 0.0),
          of_group("momentum", 0.0),
          of_group("dampening", 0.0),
          of_group("weight_decay", 0.0),
          of_group("velocity_scaling", 1.0),
          get("loss_scaling", spec.loss_scaling)};
}

bool is_fixed(const Spec& spec, int group, const std::string& name, double value) {
  const auto& hyper = spec.groups.at(group).hyper;
  auto at = hyper.find(name);
  return at == hyper.end() ? value == 0.0 : at->second.constant && at->second.value == value;
}

// Without momentum and accumulation both variants are w - lr (1 - dampening) (g + weight_decay w), without
// state. The separate variant needs no velocity without momentum either, since it would be used once and
// forgotten.
bool has_no_state(const Spec& spec, int group) {
  return is_fixed(spec, group, "momentum", 0.0) &&
         (spec.kind == Kind::kSgdSeparate || spec.accumulation == 1);
}
bool sums_into_state(const Spec& spec, int group) {
  return spec.kind == Kind::kSgdCombined && !has_no_state(spec, group);
}

// The decay term of the combined state before the first update depends on the weight, so a flag tells whether
// it is in.
bool needs_start_flag(const Spec& spec, int group) {
  return spec.kind == Kind::kSgdCombined && !is_fixed(spec, group, "weight_decay", 0.0) &&
         !is_fixed(spec, group, "dampening", 1.0);
}

Value* add(ir::Builder& builder, Value* a, Value* b) { return ops::build(builder, "add", {a, b}); }
Value* sub(ir::Builder& builder, Value* a, Value* b) { return ops::build(builder, "sub", {a, b}); }

UpdateResult separate(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                      double divisor) {
  const Hyper h = hyper_of(builder, spec, group, input.streamed);
  Value* weight = cast(builder, input.weight, DType::kF32);
  if (spec.running_mean) divisor = 1.0;  // divided already
  Value* gradient = divide(builder, cast(builder, input.gradient, DType::kF32), h.loss_scaling * divisor);
  if (!h.weight_decay.is(0.0)) gradient = add(builder, gradient, multiply(builder, weight, h.weight_decay));
  const Scalar undamped = 1.0 - h.dampening;
  UpdateResult result;
  Value* step;
  if (input.state.empty()) {
    step = multiply(builder, gradient, h.lr * undamped);
  } else {
    Value* old_velocity = cast(builder, input.state[0], DType::kF32);
    Value* velocity =
        add(builder, multiply(builder, old_velocity, h.momentum), multiply(builder, gradient, undamped));
    if (spec.groups[group].nesterov) {
      step = multiply(builder, add(builder, gradient, multiply(builder, velocity, h.momentum)), h.lr);
    } else {
      step = multiply(builder, velocity, h.lr);
    }
    result.state.push_back(cast(builder, velocity, input.state[0]->type().dtype));
  }
  result.weight = cast(builder, sub(builder, weight, step), input.weight->type().dtype);
  return result;
}

UpdateResult combined(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input) {
  const Hyper h = hyper_of(builder, spec, group, input.streamed);
  Value* weight = cast(builder, input.weight, DType::kF32);
  Value* velocity = cast(builder, input.gradient, DType::kF32);
  Value* step = multiply(builder, velocity, h.lr / h.velocity_scaling);
  Value* updated = sub(builder, weight, step);
  UpdateResult result;
  result.weight = cast(builder, updated, input.weight->type().dtype);
  Value* next = multiply(builder, velocity, h.momentum);
  const Scalar decay = (1.0 - h.dampening) * h.weight_decay * h.velocity_scaling;
  if (!decay.is(0.0)) next = add(builder, next, multiply(builder, updated, decay));
  result.state.push_back(cast(builder, next, input.state[0]->type().dtype));
  if (needs_start_flag(spec, group)) result.state.push_back(builder.scalar(DType::kBool, 1.0));
  return result;
}

}  // namespace

std::vector<State> state_of(const Spec& spec, int group) {
  if (has_no_state(spec, group)) return {};
  if (spec.kind == Kind::kSgdSeparate) return {{"Accl1", spec.velocity_dtype}};
  std::vector<State> state{{"Accl", DType::kF32}};
  if (needs_start_flag(spec, group)) state.push_back({"Started", DType::kBool, 0.0, true});
  return state;
}

bool accumulates_in_state(const Spec& spec, int group) { return sums_into_state(spec, group); }

DType accumulator_dtype(const Spec& spec, int group) {
  return sums_into_state(spec, group) ? DType::kF32 : spec.accum_dtype;
}

ir::Value* begin_accumulation(ir::Builder& builder, const Spec& spec, int group,
                              const AccumulationInput& input) {
  if (!sums_into_state(spec, group))
    return builder.splat({accumulator_dtype(spec, group), input.weight->type().shape}, 0.0);
  if (!needs_start_flag(spec, group)) return input.state[0];
  const Hyper h = hyper_of(builder, spec, group, input.streamed);
  Value* start = multiply(builder, cast(builder, input.weight, DType::kF32),
                          (1.0 - h.dampening) * h.weight_decay * h.velocity_scaling);
  return ops::build(builder, "where", {input.state[1], input.state[0], start});
}

ir::Value* accumulate(ir::Builder& builder, const Spec& spec, int group, ir::Value* accumulator,
                      ir::Value* gradient, const std::map<std::string, ir::Value*>& streamed,
                      double gradient_divisor, ir::Value* micro_batch) {
  if (spec.running_mean && !sums_into_state(spec, group)) {
    IPU_CHECK(micro_batch != nullptr, "a running mean needs the number of the micro-batch");
    const Scalar before(&builder, cast(builder, micro_batch, DType::kF32));
    const Scalar count = before + 1.0;
    Value* kept = multiply(builder, cast(builder, accumulator, DType::kF32), before / count);
    Value* added = divide(builder, cast(builder, gradient, DType::kF32), count);
    return cast(builder, add(builder, kept, added), accumulator->type().dtype);
  }
  gradient = cast(builder, gradient, accumulator->type().dtype);
  if (sums_into_state(spec, group)) {
    const Hyper h = hyper_of(builder, spec, group, streamed);
    gradient = multiply(builder, gradient,
                        (1.0 - h.dampening) * h.velocity_scaling / (h.loss_scaling * gradient_divisor));
  }
  return add(builder, accumulator, gradient);
}

UpdateResult build_update(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                          double gradient_divisor) {
  if (sums_into_state(spec, group)) return combined(builder, spec, group, input);
  return separate(builder, spec, group, input, gradient_divisor);
}

}  // namespace ipu::optimizers
