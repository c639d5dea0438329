// compile(): runs the named pass pipeline, counts the IPUs of a replica (a power of two), and lowers. The program it
// returns has passed its checks.
#include "executable/compile.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <set>

#include "ir/structure.h"
#include "ir/text/text.h"
#include "lowering/lower.h"
#include "ops/definition/op_gradients.h"
#include "program/stream_uses.h"
#include "support/log.h"
#include "support/wording.h"

namespace ipu::executable {
namespace {

constexpr int64_t kMaxPrintedConstant = 256;  // elements; larger ones appear by hash

// IPUs of one replica: the distinct ones in use or the highest number plus one, whichever is more.
int count_ipus(const ir::Module& module) {
  std::set<int> used;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      if (op->settings.ipu.has_value()) used.insert(*op->settings.ipu);
  for (const ir::Variable& variable : module.variables())
    if (variable.ipu.has_value()) used.insert(*variable.ipu);
  if (used.empty()) return 1;
  return std::max(static_cast<int>(used.size()), *used.rbegin() + 1);
}

std::string counted(int specified, int per_replica, const CompileOptions& options) {
  return fmt::format("{} IPUs are specified ({} for the model, {} replica{})", specified, per_replica,
                     options.replicas, options.replicas == 1 ? "" : "s");
}

int rounded_up(int ipus) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(ipus))); }

int reserve(int per_replica, const CompileOptions& options) {
  check_ipu_count(per_replica, options);
  const int specified = per_replica * options.replicas, rounded = rounded_up(specified);
  if (options.any_ipu_count) return specified;
  if (rounded != specified)
    log(LogLevel::kWarn, fmt::format("{} IPUs are reserved, {} of them stay idle: the model uses {}", rounded,
                                     rounded - specified, specified));
  return rounded;
}

void refuse_what_has_no_code(const ir::Module& module) {
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      if (ops::has_trait(*op, ops::kNoDeviceCode)) {
        if (const std::string reason = op->attributes.text("reason", ""); !reason.empty())
          throw Error(ErrorCode::kTypeMismatch, reason);
        ops::not_differentiable(*op, "but the operator has no gradient in PopART that a device can run");
      }
}

}  // namespace

void check_ipu_count(int per_replica, const CompileOptions& options) {
  const int specified = per_replica * options.replicas, rounded = rounded_up(specified);
  const std::string count = counted(specified, per_replica, options);
  if (specified > options.most_ipus)
    throw worded(ErrorCode::kIpuCountNotPowerOfTwo, "too_many_ipus",
                 "too many IPUs for one process: {count}, one process can use {most}.",
                 {{"count", count}, {"most", options.most_ipus}});
  if (options.any_ipu_count) return;
  if (rounded != specified && !options.auto_round_num_ipus)
    throw worded(ErrorCode::kIpuCountNotPowerOfTwo, "no_power_of_two",
                 "number of IPUs is not a power of two: {count}, {reserved} must be reserved.",
                 {{"count", count}, {"reserved", rounded}, {"idle", rounded - specified}});
}

std::string print_for_reading(const ir::Module& module) {
  ir::PrintOptions options;
  options.max_constant_elements = kMaxPrintedConstant;
  return ir::print(module, options);
}

Executable compile(ir::Module& module, const target::System& system, const CompileOptions& options) {
  refuse_what_has_no_code(module);
  const auto begin = std::chrono::steady_clock::now();
  const auto& pipelines = passes::named_pipelines();
  const auto pipeline = pipelines.find(options.pipeline);
  if (pipeline == pipelines.end()) {
    std::string known;
    for (const auto& [name, steps] : pipelines) known += (known.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kEnvironment,
                fmt::format("unknown pass pipeline: '{}'; known are {}.", options.pipeline, known));
  }
  Executable result;
  const passes::Verify verify = passes::verify_from_environment(options.verify);
  passes::Forks forks;
  passes::PassContext context;
  context.system = &system;
  context.host = options.host;
  context.forks = &forks;
  const auto begin_of_host = std::ranges::find(pipeline->second, "fork machine");
  const auto end =
      options.is_dry && begin_of_host != pipeline->second.end() ? begin_of_host + 1 : pipeline->second.end();
  result.statistics = passes::run_pipeline(module, {pipeline->second.begin(), end}, context, verify);
  if (auto fork = forks.find("machine"); fork != forks.end())
    result.machine_form = std::make_shared<const MachineForm>(std::move(fork->second), system, verify);
  result.ipu_version = system.ipu_version;
  result.ipus_per_replica = count_ipus(module);
  result.ipus_reserved = reserve(result.ipus_per_replica, options);
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  result.is_dry = options.is_dry;
  if (options.is_dry) {
    result.compile_seconds = seconds();
    return result;
  }

  lowering::LowerOptions lower_options;
  lower_options.replicas = options.replicas;
  lower_options.processes = options.processes;
  lower_options.input_groups = options.input_groups;
  {
    ErrorContext activity("lowering");
    result.program = std::make_shared<const program::Program>(lowering::lower(module, lower_options));
  }
  for (const program::IpuProgram& ipu : result.program->ipus) {
    result.statistics.counts["instructions"] += static_cast<int64_t>(ipu.instructions.size());
    result.statistics.counts["arena bytes"] += ipu.arena_bytes;
  }
  const program::Traffic moved = program::traffic(*result.program, 0);
  result.statistics.counts["remote bytes loaded"] = moved.remote_loaded;
  result.statistics.counts["remote bytes stored"] = moved.remote_stored;
  result.statistics.counts["bytes gathered from shards"] = moved.gathered;
  result.ir_text = print_for_reading(module);
  result.compile_seconds = seconds();
  if (log_enabled(LogLevel::kInfo))
    log(LogLevel::kInfo,
        fmt::format("compiled in {:f} s: {} instructions, {} IPU(s) a replica, {} bytes of arenas",
                    result.compile_seconds, result.statistics.counts["instructions"], result.ipus_per_replica,
                    result.statistics.counts["arena bytes"]));
  log(LogLevel::kTrace, "Finished Poplar compilation");
  if (log_enabled(LogLevel::kTrace)) log(LogLevel::kTrace, "program after all passes:\n" + result.ir_text);
  return result;
}

}  // namespace ipu::executable
