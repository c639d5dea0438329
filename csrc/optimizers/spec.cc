// Names and checks of optimizer specs, the same for all kinds.
#include <fmt/core.h>

#include <cmath>
#include <set>

#include "optimizers/rule.h"
#include "support/wording.h"

namespace ipu::optimizers {
namespace {

constexpr double kVelocityScalingDefault = 1.0;

// As Python prints it: the fewest digits that give the value back.
std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  std::string result;
  for (int digits = 1; digits <= 17; ++digits) {
    result = fmt::format("{:.{}g}", value, digits);
    if (std::strtod(result.c_str(), nullptr) == value) break;
  }
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kOptimizer, what); }

void check_hyper(const std::string& name, const HyperParameter& compiled, const HyperParameter& next) {
  if (compiled.constant && compiled.value != next.value)
    throw worded(
        ErrorCode::kOptimizer, "constant_changed",
        "optimizer constant changed: {name} was compiled as the constant {compiled} and is now {next}.",
        {{"name", name}, {"compiled", number(compiled.value)}, {"next", number(next.value)}});
}

void check_fixed(const std::string& name, std::string_view compiled, std::string_view next) {
  if (compiled != next)
    throw worded(
        ErrorCode::kOptimizer, "fixed_changed",
        "optimizer constant changed: {name} was compiled as {compiled} and is now {next}. It is fixed "
        "when the model is compiled.",
        {{"name", name}, {"compiled", std::string(compiled)}, {"next", std::string(next)}});
}

}  // namespace

std::string stream_name(int group, const std::string& hyper) {
  if (hyper == "loss_scaling") return "optimizer.loss_scaling";
  return fmt::format("optimizer.{}.{}", group, hyper);
}

std::string state_name(const StateTensor& state, const std::string& parameter) {
  return fmt::format("{}___{}{}", state.suffix, parameter, state.tail);
}

void check_spec(const Spec& spec) {
  for (const auto& [parameter, group] : spec.group_of)
    if (group < 0 || group >= static_cast<int>(spec.groups.size()))
      fail(fmt::format("optimizer group missing: parameter '{}' is in group {}, but there are {} groups.",
                       parameter, group, spec.groups.size()));
  for (size_t i = 0; i < spec.groups.size(); ++i)
    for (const std::string& name : rule_of(spec.kind).hypers)
      if (!spec.groups[i].hyper.contains(name))
        fail(fmt::format("optimizer attribute missing: group {} has no {}.", i, name));
  if (spec.loss_scaling.constant && !(spec.loss_scaling.value > 0.0))
    fail(fmt::format("optimizer attribute invalid: loss_scaling is {} and must be positive.",
                     number(spec.loss_scaling.value)));
  if (spec.scaled_state && rule_of(spec.kind).update != kAdamRule.update &&
      rule_of(spec.kind).update != kLambRule.update)
    fail(fmt::format("optimizer attribute invalid: {} has no scaled state; Adam, AdaMax and LAMB have.",
                     kind_name(spec.kind)));
  if (!spec.clip_groups.empty() && (!spec.is_popart || rule_of(spec.kind).measure == nullptr))
    fail(
        fmt::format("optimizer attribute invalid: {} has no groups of clipping; SGD, Adam, AdaMax and LAMB "
                    "of PopART have.",
                    kind_name(spec.kind)));
  std::set<std::string> clipped;
  for (const ClipGroup& clip : spec.clip_groups) {
    if (!(clip.max_norm >= 0.0))
      fail(fmt::format("optimizer attribute invalid: the norm of a group is {} and must be a number from 0.",
                       number(clip.max_norm)));
    for (const std::string& name : clip.parameters)
      if (!spec.group_of.contains(name) || !clipped.insert(name).second)
        fail(fmt::format("optimizer attribute invalid: parameter '{}' {}.", name,
                         clipped.contains(name) ? "is clipped twice" : "is clipped and not trained"));
  }
  if (!(spec.max_grad_norm >= 0.0))
    fail(
        fmt::format("optimizer attribute invalid: max_grad_norm is {} "
                    "and must be a number from 0 to infinity.",
                    number(spec.max_grad_norm)));
}

void check_compatible(const Spec& compiled, const Spec& next) {
  if (compiled.kind != next.kind)
    throw worded(ErrorCode::kOptimizer, "optimizer_changed",
                 "optimizer kind changed: the model was compiled for {compiled} and got {next}.",
                 {{"compiled", kind_name(compiled.kind)}, {"next", kind_name(next.kind)}});
  if (compiled.groups.size() != next.groups.size())
    fail(fmt::format("optimizer groups changed: the model was compiled for {} parameter groups and got {}.",
                     compiled.groups.size(), next.groups.size()));
  if (compiled.group_of != next.group_of)
    for (const auto& [parameter, group] : compiled.group_of) {
      auto at = next.group_of.find(parameter);
      if (at == next.group_of.end() || at->second != group)
        fail(fmt::format(
            "optimizer groups changed: parameter '{}' was compiled in group {} "
            "and is now in {}.",
            parameter, group, at == next.group_of.end() ? "none" : fmt::format("group {}", at->second)));
    }
  for (const auto& [parameter, group] : next.group_of)
    if (!compiled.group_of.contains(parameter))
      fail(
          fmt::format("optimizer groups changed: parameter '{}' was compiled in no group "
                      "and is now in group {}.",
                      parameter, group));
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
    const std::string of_group = fmt::format(" of group {}", i);
    check_fixed("nesterov" + of_group, old_group.nesterov ? "True" : "False",
                new_group.nesterov ? "True" : "False");
    for (const auto& [name, compiled_parameter] : old_group.hyper) {
      auto at = new_group.hyper.find(name);
      if (at == new_group.hyper.end())
        fail(fmt::format("optimizer attribute missing: {}{} is gone.", name, of_group));
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
