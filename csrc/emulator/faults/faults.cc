#include "emulator/faults/faults.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "support/device_error.h"
#include "support/fork.h"
#include "support/wording.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ipu::emulator {
namespace {

using program::Instruction;
using program::Opcode;

bool is_action(std::string_view text) {
  return std::find(kRecoveryActions.begin(), kRecoveryActions.end(), text) != kRecoveryActions.end();
}

int strength(std::string_view action) {
  return static_cast<int>(std::find(kRecoveryActions.begin(), kRecoveryActions.end(), action) -
                          kRecoveryActions.begin());
}

struct RuleSet {
  int64_t number = 0;
  std::vector<FaultRule> rules;
  int64_t runs_before = 0;              // when the rules were added
  std::optional<DeviceError> unusable;  // the system's state then
};

struct FaultTable {
  ForkSafe<std::mutex> mutex;
  std::vector<RuleSet> sets;
  int64_t runs = 0, numbers = 0;
  std::optional<DeviceError> unusable;  // what a reset is needed for; no action: out of service
  bool environment_read = false;
};
FaultTable& table() {
  static auto* s = new FaultTable;
  return *s;
}
std::atomic<bool> any_rules{false};

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

void update_any_rules(const FaultTable& s) {
  any_rules.store(
      std::any_of(s.sets.begin(), s.sets.end(), [](const RuleSet& r) { return !r.rules.empty(); }),
      std::memory_order_release);
}

template <class Visit>
void for_each_rule(FaultTable& s, Visit visit) {
  for (RuleSet& set : s.sets)
    for (FaultRule& rule : set.rules) visit(rule, set.runs_before);
}

}  // namespace

int64_t add_faults(std::vector<FaultRule> rules) {
  add_faults_of_environment();
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  s.sets.push_back({++s.numbers, std::move(rules), s.runs, s.unusable});
  update_any_rules(s);
  return s.numbers;
}

void remove_faults(int64_t number) {
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  auto set = std::find_if(s.sets.begin(), s.sets.end(), [&](const RuleSet& r) { return r.number == number; });
  if (set == s.sets.end()) return;
  s.unusable = set->unusable;
  s.sets.erase(set);
  update_any_rules(s);
}

void add_faults_of_environment() {
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  if (s.environment_read) return;
  const char* text = std::getenv("POPTORCH_FAULTS");
  if (text != nullptr) s.sets.push_back({++s.numbers, parse_faults(text), s.runs, {}});
  s.environment_read = true;
  update_any_rules(s);
}

bool faults_are_set() { return any_rules.load(std::memory_order_acquire); }

int64_t begin_faulty_run() {
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  return ++s.runs;
}

void fault_before_step(const program::Program& program, int ipu, int replica, int instruction, int64_t run) {
  FaultTable& s = table();
  const Instruction& step = program.ipus[ipu].instructions[instruction];
  int64_t delay = 0;
  {
    std::lock_guard lock(s.mutex);
    for_each_rule(s, [&](FaultRule& rule, int64_t runs_before) {
      if (rule.kind == FaultRule::Kind::kCorrupt ||
          !matches(rule, program, step, program.ipu_of(ipu), replica, run - runs_before) ||
          !takes_place(rule))
        return;
      switch (rule.kind) {
        case FaultRule::Kind::kSlowLink:
          delay += rule.microseconds;
          break;
        case FaultRule::Kind::kError:
          throw std::runtime_error("a fault was asked for");
        case FaultRule::Kind::kUnrecoverable:
          s.unusable.emplace(fmt::format("device fault: IPU {} does not answer", program.ipu_of(ipu)), "");
          throw *s.unusable;
        default:
          DeviceError error(
              fmt::format("device fault: IPU {} stopped and needs {}", program.ipu_of(ipu), rule.action),
              rule.action);
          // Attaching resets the IPUs it gets: nothing else is needed for this action.
          if (rule.action != kRecoveryActions[0]) s.unusable = error;
          throw error;
      }
    });
  }
  if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
}

void fault_in_transfer(const program::Program& program, int ipu, int replica, int instruction, int64_t run,
                       std::span<const std::byte> data) {
  const Instruction& step = program.ipus[ipu].instructions[instruction];
  std::vector<std::byte> sent(data.begin(), data.end());
  const uint64_t meant = XXH3_64bits(data.data(), data.size());
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  std::string action;
  for_each_rule(s, [&](FaultRule& rule, int64_t runs_before) {
    if (rule.kind != FaultRule::Kind::kCorrupt || sent.empty() ||
        !matches(rule, program, step, program.ipu_of(ipu), replica, run - runs_before) || !takes_place(rule))
      return;
    sent[static_cast<size_t>(run) % sent.size()] ^= std::byte{0x10};
    action = rule.action;
  });
  if (XXH3_64bits(sent.data(), sent.size()) == meant) return;
  s.unusable.emplace(
      fmt::format("device fault: data of stream '{}' arrived damaged", program.streams[step.object].name),
      action);
  throw *s.unusable;
}

void fault_before_allocation(int ipu) {
  if (!faults_are_set()) return;
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  for_each_rule(s, [&](FaultRule& rule, int64_t) {
    if (rule.kind == FaultRule::Kind::kAllocation && (rule.ipu < 0 || rule.ipu == ipu) && takes_place(rule))
      throw Error(
          ErrorCode::kHostMemory,
          fmt::format("out of host memory: the arena of IPU {} could not be had (a fault was asked for). "
                      "Attach again",
                      ipu));
  });
}

void require_usable_system() {
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  if (s.unusable) throw DeviceError(*s.unusable);
}

void recover(std::string_view action, int attached_ipus) {
  if (!is_action(action)) {
    std::string known;
    for (std::string_view name : kRecoveryActions) known += (known.empty() ? "" : ", ") + std::string(name);
    throw Error(ErrorCode::kExecution,
                fmt::format("unknown recovery action: '{}'; known are {}", action, known));
  }
  if (strength(action) >= strength("PARTITION_RESET") && attached_ipus > 0)
    throw worded(ErrorCode::kExecution, "ipus_in_use",
                 "IPUs are in use: {action} resets all IPUs, and {attached} are attached.",
                 {{"action", std::string(action)}, {"attached", attached_ipus}});
  FaultTable& s = table();
  std::lock_guard lock(s.mutex);
  if (!s.unusable) return;
  if (!s.unusable->recoverable()) throw DeviceError(*s.unusable);
  if (strength(action) < strength(s.unusable->recovery_action()))
    throw Error(ErrorCode::kExecution, fmt::format("reset is not enough: {} was made, {} is needed", action,
                                                   s.unusable->recovery_action()))
        .because("reset_not_enough");
  s.unusable.reset();
}

}  // namespace ipu::emulator
