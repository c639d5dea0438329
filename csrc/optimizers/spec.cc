// Names and checks of optimizer specs, the same for all kinds.
#include "optimizers/optimizer.h"
#include "support/error.h"

namespace ipu::optimizers {
namespace {

constexpr double kVelocityScalingDefault = 1.0;

std::string number(double value) {
  std::string text = std::to_string(value);
  while (text.size() > 1 && text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  return text;
}

std::string kind_name(Kind kind) {
  switch (kind) {
    case Kind::kSgdCombined:
      return "SGD with use_combined_accum=True";
    case Kind::kSgdSeparate:
      return "SGD with use_combined_accum=False";
  }
  return "kind " + std::to_string(static_cast<int>(kind));
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kOptimizer, what); }

void check_hyper(const std::string& name, const HyperParameter& compiled, const HyperParameter& next) {
  if (compiled.constant && compiled.value != next.value)
    fail("optimizer constant changed: " + name + " was compiled as the constant " + number(compiled.value) +
         " and is now " + number(next.value) +
         ". Mark it with optimizer.variable_attrs.markAsVariable before the first "
         "compilation, or compile again.");
}

}  // namespace

std::string stream_name(int group, const std::string& hyper) {
  if (hyper == "loss_scaling") return "optimizer.loss_scaling";
  return "optimizer." + std::to_string(group) + "." + hyper;
}

std::string state_name(const State& state, const std::string& parameter) {
  return state.suffix + "___" + parameter;
}

void check_spec(const Spec& spec) {
  for (const auto& [parameter, group] : spec.group_of)
    if (group < 0 || group >= static_cast<int>(spec.groups.size()))
      fail("optimizer group missing: parameter '" + parameter + "' is in group " + std::to_string(group) +
           ", but there are " + std::to_string(spec.groups.size()) + " groups.");
  for (size_t i = 0; i < spec.groups.size(); ++i)
    if (!spec.groups[i].hyper.contains("lr"))
      fail("optimizer attribute missing: group " + std::to_string(i) + " has no lr.");
  if (spec.loss_scaling.constant && !(spec.loss_scaling.value > 0.0))
    fail("optimizer attribute invalid: loss_scaling is " + number(spec.loss_scaling.value) +
         " and must be positive.");
}

void check_compatible(const Spec& compiled, const Spec& next) {
  if (compiled.kind != next.kind)
    fail("optimizer kind changed: the model was compiled for " + kind_name(compiled.kind) + " and got " +
         kind_name(next.kind) + ". Create a new trainingModel for it.");
  if (compiled.groups.size() != next.groups.size())
    fail("optimizer groups changed: the model was compiled for " + std::to_string(compiled.groups.size()) +
         " parameter groups and got " + std::to_string(next.groups.size()) + ".");
  if (compiled.group_of != next.group_of)
    for (const auto& [parameter, group] : compiled.group_of) {
      auto at = next.group_of.find(parameter);
      if (at == next.group_of.end() || at->second != group)
        fail("optimizer groups changed: parameter '" + parameter + "' was compiled in group " +
             std::to_string(group) + " and is now in " +
             (at == next.group_of.end() ? "none" : "group " + std::to_string(at->second)) + ".");
    }
  for (const auto& [parameter, group] : next.group_of)
    if (!compiled.group_of.contains(parameter))
      fail("optimizer groups changed: parameter '" + parameter +
           "' was compiled in no group and is now in group " + std::to_string(group) + ".");
  if (compiled.accum_dtype != next.accum_dtype || compiled.velocity_dtype != next.velocity_dtype)
    fail(
        "optimizer constant changed: accum_type and velocity_accum_type are fixed when the model is "
        "compiled.");
  for (size_t i = 0; i < compiled.groups.size(); ++i) {
    const Group &old_group = compiled.groups[i], &new_group = next.groups[i];
    const std::string of_group = " of group " + std::to_string(i);
    if (old_group.nesterov != new_group.nesterov)
      fail("optimizer constant changed: nesterov" + of_group + " is fixed when the model is compiled.");
    for (const auto& [name, compiled_parameter] : old_group.hyper) {
      auto at = new_group.hyper.find(name);
      if (at == new_group.hyper.end()) fail("optimizer attribute missing: " + name + of_group + " is gone.");
      check_hyper(name + of_group, compiled_parameter, at->second);
    }
    for (const auto& [name, parameter] : new_group.hyper)
      if (!old_group.hyper.contains(name))
        check_hyper(name + of_group, {name == "velocity_scaling" ? kVelocityScalingDefault : 0.0, true},
                    parameter);
  }
  check_hyper("loss_scaling", compiled.loss_scaling, next.loss_scaling);
}

}  // namespace ipu::optimizers
