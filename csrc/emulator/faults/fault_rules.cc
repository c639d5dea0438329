#include "emulator/faults/fault_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "support/error.h"

namespace ipu::emulator {
namespace {

constexpr std::array<std::string_view, 6> kSteps{"kernel", "load", "store", "push", "pop", "collective"};

template <size_t n>
std::string listed(const std::array<std::string_view, n>& names) {
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

[[noreturn]] void refuse(std::string_view text, const std::string& detail) {
  throw Error(ErrorCode::kEnvironment,
              fmt::format("faults are not understood: '{}': {}. Rules look like "
                          "IPU_RESET@run=2,ipu=1,step=kernel and are separated by ';'",
                          text, detail));
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

int64_t number(std::string_view rule, std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    refuse(rule, fmt::format("'{}' is not a number", text));
  return value;
}

void set_condition(FaultRule& rule, std::string_view text, std::string_view condition) {
  const size_t equals = condition.find('=');
  if (equals == std::string_view::npos) refuse(text, "a condition is name=value");
  const std::string_view name = trimmed(condition.substr(0, equals)),
                         value = trimmed(condition.substr(equals + 1));
  if (name == "run") {
    rule.run = number(text, value);
  } else if (name == "ipu") {
    rule.ipu = static_cast<int>(number(text, value));
  } else if (name == "replica") {
    rule.replica = static_cast<int>(number(text, value));
  } else if (name == "times") {
    rule.times = number(text, value);
  } else if (name == "stream") {
    rule.stream = value;
  } else if (name == "step") {
    if (std::find(kSteps.begin(), kSteps.end(), value) == kSteps.end())
      refuse(text, "step is one of " + listed(kSteps));
    rule.step = value;
  } else {
    refuse(text, "conditions are run, ipu, replica, step, stream and times");
  }
}

FaultRule parse_rule(std::string_view text) {
  FaultRule rule;
  const size_t at = text.find('@');
  std::string_view kind = trimmed(text.substr(0, at)), detail;
  if (const size_t colon = kind.find(':'); colon != std::string_view::npos) {
    detail = trimmed(kind.substr(colon + 1));
    kind = trimmed(kind.substr(0, colon));
  }
  if (std::find(kRecoveryActions.begin(), kRecoveryActions.end(), kind) != kRecoveryActions.end()) {
    rule.action = kind;
  } else if (kind == "unrecoverable") {
    rule.kind = FaultRule::Kind::kUnrecoverable;
  } else if (kind == "slow_link") {
    rule.kind = FaultRule::Kind::kSlowLink;
    rule.times = 0;
    rule.microseconds = number(text, detail);
  } else if (kind == "allocation") {
    rule.kind = FaultRule::Kind::kAllocation;
  } else if (kind == "corrupt") {
    rule.kind = FaultRule::Kind::kCorrupt;
    rule.action = "LINK_RESET";
  } else if (kind == "error") {
    rule.kind = FaultRule::Kind::kError;
  } else {
    refuse(text,
           fmt::format("kinds are {}, unrecoverable, slow_link:MICROSECONDS, allocation, corrupt, error",
                       listed(kRecoveryActions)));
  }
  if (!detail.empty() && rule.kind != FaultRule::Kind::kSlowLink) refuse(text, "only slow_link has a value");
  if (at == std::string_view::npos) return rule;
  std::string_view rest = text.substr(at + 1);
  while (true) {
    const size_t comma = rest.find(',');
    set_condition(rule, text, rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return rule;
}

}  // namespace

std::vector<FaultRule> parse_faults(std::string_view text) {
  std::vector<FaultRule> rules;
  while (!text.empty()) {
    const size_t end = text.find(';');
    if (const std::string_view rule = trimmed(text.substr(0, end)); !rule.empty())
      rules.push_back(parse_rule(rule));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return rules;
}

}  // namespace ipu::emulator
