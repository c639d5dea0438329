// Pipelines as data, and the driver that runs one: passes in order, the verifier between them, text dumps on
// demand.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <ranges>

#include "ir/text/text.h"
#include "ops/definition/effects.h"
#include "ops/verify.h"
#include "passes/pass.h"
#include "support/error.h"
#include "support/interruption.h"
#include "support/log.h"
#include "support/regular_file.h"

namespace ipu::passes {
namespace {

// Steps are those of pass.h; names of checkpoints are those of PopART's dot checkpoints. Fwd0 is the module as
// the frontend made it, gradients included; Fwd1 has no writes any more; at Bwd0 gradients are where their
// forward ops are; at PreAlias rewrites of the mathematics are done, at MainLoops pipelines are loops.
using Steps = std::vector<std::string>;

// What a program is, wherever it runs: ops placed, gone from calls, merged, and whole.
const Steps kShared = {"@Fwd0",
                       "expand",
                       "functionalize",
                       "@Fwd1",
                       "round-at-random",
                       "place",
                       "@Bwd0",
                       "inline-calls",
                       "inline-single-trip-loops",
                       "index-slices",
                       "fold-constants",
                       "sink-transposes",
                       "simplify",
                       "cse",
                       "dce",
                       "order-phases",
                       "load-late",
                       "offload-activations",
                       "plan-recomputation",
                       "@PreAlias"};

// From there to what the machine runs (docs/rationale/machine-form.md).
const Steps kMachine = {"recompute",         "split-accumulators", "hoist-accumulations", "join-updates",
                        "pipeline-to-rings", "insert-ipu-copies",  "insert-io-copies",    "dce",
                        "@Machine"};

// And to what this host runs: what its kernels can do, in their layouts.
const Steps kHost = {"half-partials",
                     "decompose",
                     "fold-constants if half-partials|decompose",
                     "simplify if half-partials|decompose",
                     "cse if half-partials|decompose",
                     "dce if half-partials|decompose",
                     "channels-last",
                     "pack-weights",
                     "fuse-into-convolutions",
                     "fuse-into-products",
                     "fuse-attention",
                     "fuse-attention-gradient",
                     "fuse-pointwise",
                     "hoist-updates",
                     "recompute-on-host",
                     "pipeline-to-rings",
                     "@MainLoops",
                     "insert-ipu-copies",
                     "insert-io-copies",
                     "dce",
                     "@Final"};

Steps joined(std::initializer_list<Steps> parts) {
  Steps all;
  for (const Steps& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::map<std::string, Steps> kPipelines = {
    // What compile() runs on every module before lowering.
    {"default", joined({kShared, {"fork machine"}, kHost})},
    // From the fork on, and all the way: for reading the machine form.
    {"machine", kMachine},
    {"machine-form", joined({kShared, kMachine})},
    // What makes a graph smaller without placing it: for reading captured graphs.
    {"simplify", {"inline-calls", "inline-single-trip-loops", "fold-constants", "simplify", "cse", "dce"}},
};

constexpr std::string_view kStepsBesidePasses[] = {"lower"};  // moments that callers of dump() name

bool is_known_moment(std::string_view moment) {
  if (moment == "all") return true;
  size_t colon = moment.find(':');
  if (colon == std::string_view::npos) return false;
  std::string_view when = moment.substr(0, colon), what = moment.substr(colon + 1);
  if (when == "at") return !what.empty();
  if (when != "before" && when != "after") return false;
  for (std::string_view step : kStepsBesidePasses)
    if (what == step) return true;
  return find_pass(what) != nullptr;
}

// Empty: nothing is wanted.
std::string_view dumps_wanted() {
  const char* wanted = std::getenv("IPU_DUMP");
  return wanted == nullptr ? "" : wanted;
}

bool dump_wanted(std::string_view moment) {
  bool found = false;
  std::string_view rest = dumps_wanted();
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (item.empty()) continue;
    if (!is_known_moment(item))
      throw Error(ErrorCode::kEnvironment,
                  fmt::format("IPU_DUMP is not understood: "
                              "'{}' is none of all, before:PASS, after:PASS, at:CHECKPOINT. "
                              "ipu-opt --list names the passes.",
                              item));
    if (item == moment || item == "all") found = true;
  }
  return found;
}

}  // namespace

const std::map<std::string, std::vector<std::string>>& named_pipelines() { return kPipelines; }

void dump(const ir::Module& module, std::string_view moment) {
  if (!dump_wanted(moment)) return;
  static std::atomic<int> sequence{0};
  const char* directory = std::getenv("IPU_DUMP_DIR");
  std::string name(moment);
  for (char& c : name)
    if (c == ':' || c == '/') c = '-';
  std::string path = fmt::format(
      "{}/{:03}-{}.ir", directory == nullptr || *directory == '\0' ? "." : directory, sequence++, name);
  check_target(path);
  std::ofstream file(path);
  file << ir::print(module);
  if (!file.flush())
    throw Error(
        ErrorCode::kEnvironment,
        fmt::format("dump not written: {} cannot be opened. IPU_DUMP_DIR names an existing directory.",
                    path));
}

Verify verify_from_environment(Verify otherwise) {
  const char* given = std::getenv("IPU_VERIFY");
  const std::string_view word = given == nullptr ? "" : given;
  if (word.empty()) return otherwise;
  if (word == "never") return Verify::kNever;
  if (word == "ends") return Verify::kEnds;
  if (word == "passes") return Verify::kEachPass;
  throw Error(ErrorCode::kEnvironment,
              fmt::format("IPU_VERIFY is not understood: '{}' is none of never, ends, passes.", word));
}

namespace {
// `what` is to blame when the module is illegal now.
void verify_after(const ir::Module& module, ir::Form form, const std::string& what) {
  try {
    ops::verify(module, form);
  } catch (const Error& error) {
    throw Error(ErrorCode::kInternal,
                fmt::format("internal error: {} left an illegal module.\n{}", what, error.message()));
  }
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> list;
  for (const auto word : std::views::split(words, '|')) list.emplace_back(word.begin(), word.end());
  return list;
}
}  // namespace

Step step_of(std::string_view text) {
  constexpr std::string_view kFork = "fork ", kIf = " if ";
  if (text.starts_with("@")) return {Step::Kind::kCheckpoint, std::string(text.substr(1)), {}};
  if (text.starts_with(kFork)) return {Step::Kind::kFork, std::string(text.substr(kFork.size())), {}};
  const size_t at = text.find(kIf);
  if (at == std::string_view::npos) return {Step::Kind::kPass, std::string(text), {}};
  return {Step::Kind::kPass, std::string(text.substr(0, at)), split(text.substr(at + kIf.size()))};
}

void run_fork(std::string_view name, ir::Module& fork, const PassContext& context, Verify verify) {
  auto pipeline = kPipelines.find(std::string(name));
  IPU_CHECK(pipeline != kPipelines.end(), fmt::format("fork to an unknown pipeline '{}'", name));
  Statistics own;
  PassContext inner;  // it sees nothing of the host
  inner.system = context.system;
  inner.statistics = &own;
  run_pipeline(fork, pipeline->second, inner, verify);
}

Statistics run_pipeline(ir::Module& module, const std::vector<std::string>& steps, const PassContext& context,
                        Verify verify) {
  Statistics statistics;
  PassContext inner = context;
  inner.statistics = &statistics;
  std::map<std::string, bool> has_changed;  // by pass, the last run of it
  ir::Form form = ops::form_of(module);     // only functionalize changes it
  if (verify != Verify::kNever) ops::verify(module, form);
  bool is_verified = true;
  for (const std::string& text : steps) {
    const Step step = step_of(text);
    if (step.kind == Step::Kind::kCheckpoint) {
      dump(module, "at:" + step.name);
      continue;
    }
    if (step.kind == Step::Kind::kFork) {
      if (context.forks != nullptr) (*context.forks)[step.name] = module.clone();
      if (!dumps_wanted().empty()) run_fork(step.name, *module.clone(), context, verify);
      continue;
    }
    const auto changed_by = [&](const std::string& pass) { return has_changed[pass]; };
    if (!step.only_if.empty() && std::ranges::none_of(step.only_if, changed_by)) continue;
    const PassInfo* info = find_pass(step.name);
    if (info == nullptr)
      throw Error(ErrorCode::kInvalidIr,
                  fmt::format("unknown pass '{}': ipu-opt --list names the passes.", step.name));
    poll_interruption();
    ErrorContext activity(fmt::format("running pass '{}'", step.name));
    dump(module, "before:" + step.name);
    if (log_enabled(LogLevel::kDebug)) log(LogLevel::kDebug, "pass " + step.name);
    const bool changed = has_changed[step.name] = info->make()->run(module, inner);
    dump(module, "after:" + step.name);
    if (changed) is_verified = false;
    if (step.name == "functionalize" && form != ir::Form::kFunctional) {
      form = ir::Form::kFunctional;
      is_verified = false;
    }
    if (verify != Verify::kEachPass || is_verified) continue;  // a module that stays as it was stays legal
    verify_after(module, form, fmt::format("pass '{}'", step.name));
    is_verified = true;
  }
  if (verify == Verify::kEnds && !is_verified)
    verify_after(module, form, "a pass (IPU_VERIFY=passes says which)");
  if (context.statistics != nullptr)
    for (const auto& [what, n] : statistics.counts) context.statistics->counts[what] += n;
  return statistics;
}

}  // namespace ipu::passes
