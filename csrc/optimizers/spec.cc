// Names and checks of optimizer specs, the same for all kinds.
#include <cmath>
#include <cstdio>

#include "optimizers/rule.h"
#include "support/error.h"

namespace ipu::optimizers {
namespace {

constexpr double kVelocityScalingDefault = 1.0;

// As Python prints it: the fewest digits that give the value back.
std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kOptimizer, what); }

void check_hyper(const std::string& name, const HyperParameter& compiled, const HyperParameter& next) {
  if (compiled.constant && compiled.value != next.value)
    fail("optimizer constant changed: " + name + " was compiled as the constant " + number(compiled.value) +
         " and is now " + number(next.value) +
         ". Mark it with optimizer.variable_attrs.markAsVariable before the first "
         "compilation, or compile again.");
}

void check_fixed(const std::string& name, std::string_view compiled, std::string_view next) {
  if (compiled != next)
    fail("optimizer constant changed: " + name + " was compiled as " + std::string(compiled) +
         " and is now " + std::string(next) +
         ". It is fixed when the model is compiled: create a new trainingModel to change it.");
}

}  // namespace

std::string stream_name(int group, const std::string& hyper) {
  if (hyper == "loss_scaling") return "optimizer.loss_scaling";
  return "optimizer." + std::to_string(group) + "." + hyper;
}

std::string state_name(const StateTensor& state, const std::string& parameter) {
  return state.suffix + "___" + parameter;
}

void check_spec(const Spec& spec) {
  for (const auto& [parameter, group] : spec.group_of)
    if (group < 0 || group >= static_cast<int>(spec.groups.size()))
      fail("optimizer group missing: parameter '" + parameter + "' is in group " + std::to_string(group) +
           ", but there are " + std::to_string(spec.groups.size()) + " groups.");
  for (size_t i = 0; i < spec.groups.size(); ++i)
    for (const std::string& name : rule_of(spec.kind).hypers)
      if (!spec.groups[i].hyper.contains(name))
        fail("optimizer attribute missing: group " + std::to_string(i) + " has no " + name + ".");
  if (spec.loss_scaling.constant && !(spec.loss_scaling.value > 0.0))
    fail("optimizer attribute invalid: loss_scaling is " + number(spec.loss_scaling.value) +
         " and must be positive.");
  if (!(spec.max_grad_norm >= 0.0))
    fail("optimizer attribute invalid: max_grad_norm is " + number(spec.max_grad_norm) +
         " and must be a number from 0 to infinity.");
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
  const bool first_is_velocity = compiled.kind == Kind::kSgdSeparate || compiled.is_combined();
  check_fixed("accum_type", to_string(compiled.accum_dtype), to_string(next.accum_dtype));
  check_fixed(first_is_velocity ? "velocity_accum_type" : "first_order_momentum_accum_type",
              to_string(compiled.velocity_dtype), to_string(next.velocity_dtype));
  check_fixed("second_order_momentum_accum_type", to_string(compiled.second_dtype),
              to_string(next.second_dtype));
  check_fixed("max_grad_norm", number(compiled.max_grad_norm), number(next.max_grad_norm));
  check_fixed("use_tf_variant", compiled.tf_variant ? "True" : "False", next.tf_variant ? "True" : "False");
  for (size_t i = 0; i < compiled.groups.size(); ++i) {
    const Group &old_group = compiled.groups[i], &new_group = next.groups[i];
    const std::string of_group = " of group " + std::to_string(i);
    check_fixed("nesterov" + of_group, old_group.nesterov ? "True" : "False",
                new_group.nesterov ? "True" : "False");
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
