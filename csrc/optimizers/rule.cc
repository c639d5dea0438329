// The table of kinds, the parts that all rules share, and the sum over micro-batches.
#include "optimizers/rule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

constexpr double kTinyBase = 1e-30;  // its powers are 0 in f32, its logarithm is finite

bool has_rest(const std::string& name) { return name == "beta1" || name == "beta2" || name == "alpha"; }
bool has_logarithm(Kind kind, const std::string& name) {
  return corrects_bias(kind) && (name == "beta1" || name == "beta2");
}
double logarithm_of(double base) { return std::log(std::max(base, kTinyBase)); }

}  // namespace

// --- kinds

const Rule& rule_of(Kind kind) {
  switch (kind) {
    case Kind::kSgdCombined:
    case Kind::kSgdSeparate:
      return kSgdRule;
    case Kind::kAdam:
    case Kind::kAdamW:
    case Kind::kAdamWNoBias:
    case Kind::kAdaMax:
      return kAdamRule;
    case Kind::kAdaGrad:
      return kAdaGradRule;
    case Kind::kAdaDelta:
      return kAdaDeltaRule;
    case Kind::kRmsProp:
    case Kind::kRmsPropCentred:
      return kRmsPropRule;
    case Kind::kLamb:
    case Kind::kLambNoBias:
      return kLambRule;
  }
  throw Error(ErrorCode::kOptimizer, fmt::format("unknown optimizer kind: {}", static_cast<int>(kind)));
}

std::string kind_name(Kind kind) {
  switch (kind) {
    case Kind::kSgdCombined:
      return "SGD with use_combined_accum=True";
    case Kind::kSgdSeparate:
      return "SGD with use_combined_accum=False";
    case Kind::kAdam:
      return "Adam";
    case Kind::kAdamW:
      return "AdamW";
    case Kind::kAdamWNoBias:
      return "AdamW with bias_correction=False";
    case Kind::kRmsProp:
      return "RMSprop";
    case Kind::kRmsPropCentred:
      return "RMSprop with centered=True";
    case Kind::kLamb:
      return "LAMB";
    case Kind::kLambNoBias:
      return "LAMB with bias_correction=False";
    case Kind::kAdaMax:
      return "AdaMax";
    case Kind::kAdaGrad:
      return "AdaGrad";
    case Kind::kAdaDelta:
      return "AdaDelta";
  }
  return fmt::format("kind {}", static_cast<int>(kind));
}

bool corrects_bias(Kind kind) {
  return kind == Kind::kAdam || kind == Kind::kAdamW || kind == Kind::kLamb || kind == Kind::kAdaMax;
}

StateTypes state_types(const Spec& spec, int group) {
  const Group& own = spec.groups.at(group);
  if (spec.is_popart) return {own.first_dtype, own.second_dtype, own.third_dtype};
  return {spec.velocity_dtype, spec.second_dtype, DType::kF32};
}

// --- hyper-parameters

std::map<std::string, double> streamed_hypers(const Spec& spec, int group) {
  std::map<std::string, double> values;
  for (const auto& [name, hyper] : spec.groups.at(group).hyper) {
    if (hyper.constant) continue;
    values[name] = hyper.value;
    if (has_rest(name)) values[name + ".rest"] = 1.0 - hyper.value;
    if (has_logarithm(spec.kind, name)) values[name + ".log"] = logarithm_of(hyper.value);
  }
  return values;
}

Scalar Hypers::get(const std::string& stream, bool constant, double value) const {
  if (constant) return value;
  auto at = streamed_.find(stream);
  IPU_CHECK(at != streamed_.end(), fmt::format("no streamed value for hyper-parameter '{}'", stream));
  return Scalar(&builder_, at->second);
}
Scalar Hypers::operator()(const std::string& name) const {
  const auto& hyper = spec_.groups.at(group_).hyper;
  auto at = hyper.find(name);
  if (at == hyper.end()) return name == "velocity_scaling" ? 1.0 : 0.0;
  return get(name, at->second.constant, at->second.value);
}
Scalar Hypers::rest(const std::string& name) const {
  const HyperParameter& hyper = spec_.groups.at(group_).hyper.at(name);
  return get(name + ".rest", hyper.constant, 1.0 - hyper.value);
}
Scalar Hypers::logarithm(const std::string& name) const {
  const HyperParameter& hyper = spec_.groups.at(group_).hyper.at(name);
  return get(name + ".log", hyper.constant, logarithm_of(hyper.value));
}
Scalar Hypers::loss_scaling() const {
  return get("loss_scaling", spec_.loss_scaling.constant, spec_.loss_scaling.value);
}

bool is_fixed(const Spec& spec, int group, const std::string& name, double value) {
  const auto& hyper = spec.groups.at(group).hyper;
  auto at = hyper.find(name);
  return at == hyper.end() ? value == 0.0 : at->second.constant && at->second.value == value;
}

bool has_momentum(const Spec& spec, int group) { return !is_fixed(spec, group, "momentum", 0.0); }

// --- one update

Value* Update::op(const char* kind, Value* a, Value* b) const { return ops::build(builder, kind, {a, b}); }
Value* Update::op(const char* kind, Value* a) const { return ops::build(builder, kind, {a}); }

Value* Update::weight() const { return cast(builder, input.weight, DType::kF32); }

Value* Update::gradient() const {
  Value* gradient = cast(builder, input.gradient, DType::kF32);
  if (input.gradient_factor != nullptr)
    return multiply(builder, gradient, Scalar(&builder, input.gradient_factor));
  const Scalar left = divisor_left(spec, group, gradient_divisor);
  return divide(builder, gradient, spec.scaled_state ? left : hyper.loss_scaling() * left);
}

Value* Update::gradient_with_decay(Value* weight) const {
  const Scalar decay =
      spec.scaled_state ? hyper("weight_decay") * hyper.loss_scaling() : hyper("weight_decay");
  Value* plain = gradient();
  return decay.is(0.0) ? plain : op("add", plain, multiply(builder, weight, decay));
}

bool Update::decays_gradient() const {
  if (spec.decay != Decay::kOfKind) return spec.decay == Decay::kGradient;
  return spec.kind == Kind::kAdam || spec.kind == Kind::kRmsProp || spec.kind == Kind::kRmsPropCentred;
}

Value* Update::clipped(Value* (*measure)(const Update& update)) const {
  if (input.clip_factor == nullptr) return measure(*this);
  return multiply(builder, input.measured, Scalar(&builder, input.clip_factor));
}

Value* Update::state(size_t i) const { return cast(builder, input.state.at(i), DType::kF32); }

Value* Update::blend(Value* old_value, const Scalar& factor, Value* new_value, const Scalar& share) const {
  return op("add", multiply(builder, old_value, factor), multiply(builder, new_value, share));
}

UpdateResult Update::result(Value* weight, const std::vector<Value*>& state) const {
  UpdateResult result;
  result.weight = cast(builder, weight, input.weight->type().dtype);
  IPU_CHECK(state.size() == input.state.size(), "a rule returns all of its state");
  for (size_t i = 0; i < state.size(); ++i)
    result.state.push_back(cast(builder, state[i], input.state[i]->type().dtype));
  return result;
}

std::vector<StateTensor> state_of(const Spec& spec, int group) {
  return rule_of(spec.kind).state(spec, group);
}

UpdateResult build_update(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                          double gradient_divisor) {
  IPU_CHECK(spec.clips() == (input.gradient_factor != nullptr), "a gradient factor belongs to clipping");
  return rule_of(spec.kind).update({builder, spec, group, input, gradient_divisor});
}

// --- the sum over micro-batches

double divisor_left(const Spec& spec, int group, double gradient_divisor) {
  if (spec.running_mean) gradient_divisor /= static_cast<double>(spec.accumulation);
  return averages_replicas(spec, group) ? gradient_divisor / static_cast<double>(spec.replicas)
                                        : gradient_divisor;
}

DType accumulator_dtype(const Spec& spec, int group) {
  if (accumulates_in_state(spec, group)) return DType::kF32;
  return spec.is_popart ? spec.groups.at(group).accum_dtype : spec.accum_dtype;
}

Value* begin_accumulation(ir::Builder& builder, const Spec& spec, int group, const AccumulationInput& input) {
  if (accumulates_in_state(spec, group))
    return cast(builder, combined_start(builder, spec, group, input), DType::kF32);
  return builder.splat({accumulator_dtype(spec, group), input.weight->type().shape}, 0.0);
}

Value* accumulate(ir::Builder& builder, const Spec& spec, int group, Value* accumulator, Value* gradient,
                  const std::map<std::string, Value*>& streamed, double gradient_divisor,
                  Value* micro_batch) {
  const bool in_state = accumulates_in_state(spec, group);
  if (spec.running_mean && !in_state) {
    IPU_CHECK(micro_batch != nullptr, "a running mean needs the number of the micro-batch");
    const Scalar before(&builder, cast(builder, micro_batch, DType::kF32));
    const Scalar count = before + 1.0;
    Value* kept = multiply(builder, cast(builder, accumulator, DType::kF32), before / count);
    Value* added = divide(builder, cast(builder, gradient, DType::kF32), count);
    return cast(builder, ops::build(builder, "add", {kept, added}), accumulator->type().dtype);
  }
  gradient = cast(builder, gradient, accumulator->type().dtype);
  if (in_state) {
    const Hypers hyper(builder, spec, group, streamed);
    gradient = multiply(builder, gradient, combined_share(hyper) / (hyper.loss_scaling() * gradient_divisor));
  }
  return ops::build(builder, "add", {accumulator, gradient});
}

}  // namespace ipu::optimizers
