#include "emulator/faults.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "support/device_error.h"

namespace ipu::emulator {
namespace {

using program::Instruction;
using program::Opcode;

// From weakest to strongest.
constexpr std::array<std::string_view, 4> kActions{"IPU_RESET", "LINK_RESET", "PARTITION_RESET",
                                                   "FULL_RESET"};
constexpr std::array<std::string_view, 6> kSteps{"kernel", "load", "store", "push", "pop", "collective"};

int strength(std::string_view action) {
  return static_cast<int>(std::find(kActions.begin(), kActions.end(), action) - kActions.begin());
}

struct State {
  std::mutex mutex;
  std::vector<FaultRule> rules;
  int64_t runs = 0;
  std::optional<DeviceError> unusable;  // what a reset is needed for; no action: out of service
  bool environment_read = false;
};
State& state() {
  static auto* s = new State;
  return *s;
}
std::atomic<bool> any_rules{false};

template <size_t n>
std::string listed(const std::array<std::string_view, n>& names) {
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

[[noreturn]] void refuse(std::string_view text, const std::string& detail) {
  throw Error(ErrorCode::kEnvironment,
              "faults are not understood: '" + std::string(text) + "': " + detail +
                  ". Rules look like IPU_RESET@run=2,ipu=1,step=kernel and are separated by ';'");
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
    refuse(rule, "'" + std::string(text) + "' is not a number");
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
  if (std::find(kActions.begin(), kActions.end(), kind) != kActions.end()) {
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
    refuse(text, "kinds are " + listed(kActions) +
                     ", unrecoverable, slow_link:MICROSECONDS, allocation, corrupt, error");
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

std::string_view kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kKernel:
      return "kernel";
    case Opcode::kStreamLoad:
      return "load";
    case Opcode::kStreamStore:
      return "store";
    case Opcode::kPush:
      return "push";
    case Opcode::kPop:
      return "pop";
    case Opcode::kCollective:
      return "collective";
    default:
      return "";
  }
}

// Whether it happens now; counts it when it does.
bool takes_place(FaultRule& rule) {
  if (rule.times == 0) return true;
  if (rule.times < 0) return false;
  if (--rule.times == 0) rule.times = -1;
  return true;
}

bool matches(const FaultRule& rule, const program::Program& program, const Instruction& step, int ipu,
             int replica, int64_t run) {
  if (rule.kind == FaultRule::Kind::kAllocation) return false;
  if ((rule.run != 0 && rule.run != run) || (rule.ipu >= 0 && rule.ipu != ipu) ||
      (rule.replica >= 0 && rule.replica != replica))
    return false;
  const std::string_view kind = kind_of(step.opcode);
  if (kind.empty()) return false;
  if (rule.kind == FaultRule::Kind::kCorrupt)
    return (kind == "load" || kind == "store") && (rule.step.empty() || rule.step == kind) &&
           (rule.stream.empty() || rule.stream == program.streams[step.object].name);
  return rule.step.empty() || rule.step == kind;
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

void set_faults(std::vector<FaultRule> rules) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.environment_read = true;
  s.rules = std::move(rules);
  s.runs = 0;
  s.unusable.reset();
  any_rules.store(!s.rules.empty(), std::memory_order_release);
}

void set_faults_from_environment() {
  State& s = state();
  {
    std::lock_guard lock(s.mutex);
    if (s.environment_read) return;
    s.environment_read = true;
  }
  const char* text = std::getenv("POPTORCH_FAULTS");
  if (text != nullptr && *text != '\0') set_faults(parse_faults(text));
}

bool faults_are_set() { return any_rules.load(std::memory_order_acquire); }

int64_t begin_faulty_run() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return ++s.runs;
}

void fault_before_step(const program::Program& program, int ipu, int replica, int instruction, int64_t run) {
  State& s = state();
  const Instruction& step = program.ipus[ipu].instructions[instruction];
  int64_t delay = 0;
  {
    std::lock_guard lock(s.mutex);
    for (FaultRule& rule : s.rules) {
      if (!matches(rule, program, step, ipu, replica, run) || !takes_place(rule)) continue;
      switch (rule.kind) {
        case FaultRule::Kind::kSlowLink:
          delay += rule.microseconds;
          break;
        case FaultRule::Kind::kError:
          throw std::runtime_error("a fault was asked for");
        case FaultRule::Kind::kCorrupt:
          s.unusable.emplace(
              "device fault: data of stream '" + program.streams[step.object].name + "' arrived damaged",
              rule.action);
          throw *s.unusable;
        case FaultRule::Kind::kUnrecoverable:
          s.unusable.emplace("device fault: IPU " + std::to_string(ipu) + " does not answer", "");
          throw *s.unusable;
        default:
          DeviceError error("device fault: IPU " + std::to_string(ipu) + " stopped and needs " + rule.action,
                            rule.action);
          // Attaching resets the IPUs it gets: nothing else is needed for this action.
          if (rule.action != kActions[0]) s.unusable = error;
          throw error;
      }
    }
  }
  if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
}

void fault_before_allocation(int ipu) {
  if (!faults_are_set()) return;
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (FaultRule& rule : s.rules)
    if (rule.kind == FaultRule::Kind::kAllocation && (rule.ipu < 0 || rule.ipu == ipu) && takes_place(rule))
      throw Error(ErrorCode::kHostMemory, "out of host memory: the arena of IPU " + std::to_string(ipu) +
                                              " could not be had (a fault was asked for). Attach again");
}

void require_usable_system() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.unusable) throw DeviceError(*s.unusable);
}

void recover(std::string_view action, int attached_ipus) {
  if (std::find(kActions.begin(), kActions.end(), action) == kActions.end())
    throw Error(ErrorCode::kExecution,
                "unknown recovery action: '" + std::string(action) + "'; known are " + listed(kActions));
  if (strength(action) >= strength("PARTITION_RESET") && attached_ipus > 0)
    throw Error(ErrorCode::kExecution,
                "IPUs are in use: " + std::string(action) + " resets all IPUs, and " +
                    std::to_string(attached_ipus) +
                    " are attached. Call detachFromDevice() or destroy() on each model first");
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.unusable) return;
  if (!s.unusable->recoverable()) throw DeviceError(*s.unusable);
  if (strength(action) < strength(s.unusable->recovery_action()))
    throw Error(ErrorCode::kExecution, "reset is not enough: " + std::string(action) + " was made, " +
                                           s.unusable->recovery_action() + " is needed");
  s.unusable.reset();
}

}  // namespace ipu::emulator
