// compile(): the named pass pipeline, the count of IPUs (spec 9.7), lowering. The program it returns has
// passed its checks.
#include "executable/compile.h"

#include <bit>
#include <chrono>
#include <set>

#include "ir/structure.h"
#include "ir/text/text.h"
#include "lowering/lower.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::executable {
namespace {

constexpr int kMaxIpusPerProcess = 64;
constexpr int64_t kMaxPrintedConstant = 256;  // elements; larger ones appear by hash in ir_text

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

int reserve(int per_replica, const CompileOptions& options) {
  const int specified = per_replica * options.replicas;
  const int rounded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(specified)));
  const std::string count =
      std::to_string(specified) + " IPUs are specified (" + std::to_string(per_replica) + " for the model, " +
      std::to_string(options.replicas) + (options.replicas == 1 ? " replica)" : " replicas)");
  if (specified > kMaxIpusPerProcess)
    throw Error(ErrorCode::kIpuCountNotPowerOfTwo,
                "too many IPUs for one process: " + count + ", one process can use " +
                    std::to_string(kMaxIpusPerProcess) +
                    ". Distributed execution is required: run several processes with Options.Distributed.");
  if (options.any_ipu_count) return specified;
  if (rounded != specified && !options.auto_round_num_ipus)
    throw Error(ErrorCode::kIpuCountNotPowerOfTwo,
                "number of IPUs is not a power of two: " + count + ", " + std::to_string(rounded) +
                    " must be reserved. Set Options.autoRoundNumIPUs(True) to reserve " +
                    std::to_string(rounded) + " IPUs and leave " + std::to_string(rounded - specified) +
                    " idle, or place the model on a power of two of IPUs.");
  if (rounded != specified)
    log(LogLevel::kWarn, std::to_string(rounded) + " IPUs are reserved, " +
                             std::to_string(rounded - specified) + " of them stay idle: the model uses " +
                             std::to_string(specified));
  return rounded;
}

}  // namespace

Executable compile(ir::Module& module, const target::System& system, const CompileOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto& pipelines = passes::named_pipelines();
  auto pipeline = pipelines.find(options.pipeline);
  if (pipeline == pipelines.end()) {
    std::string known;
    for (const auto& [name, steps] : pipelines) known += (known.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kEnvironment,
                "unknown pass pipeline: '" + options.pipeline + "'; known are " + known + ".");
  }
  Executable result;
  passes::PassContext context;
  context.system = &system;
  result.statistics = passes::run_pipeline(module, pipeline->second, context, options.verify);
  result.ipu_version = system.ipu_version;
  result.ipus_per_replica = count_ipus(module);
  result.ipus_reserved = reserve(result.ipus_per_replica, options);

  lowering::LowerOptions lower_options;
  lower_options.replicas = options.replicas;
  lower_options.input_groups = options.input_groups;
  lower_options.device_iterations = options.device_iterations;
  lower_options.accumulation = options.accumulation;
  {
    ErrorContext activity("lowering");
    result.program = std::make_shared<const program::Program>(lowering::lower(module, lower_options));
  }
  for (const program::IpuProgram& ipu : result.program->ipus) {
    result.statistics.counts["instructions"] += static_cast<int64_t>(ipu.instructions.size());
    result.statistics.counts["arena bytes"] += ipu.arena_bytes;
  }
  ir::PrintOptions print_options;
  print_options.max_constant_elements = kMaxPrintedConstant;
  result.ir_text = ir::print(module, print_options);
  result.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (log_enabled(LogLevel::kInfo))
    log(LogLevel::kInfo, "compiled in " + std::to_string(result.compile_seconds) + " s: " +
                             std::to_string(result.statistics.counts["instructions"]) + " instructions, " +
                             std::to_string(result.ipus_per_replica) + " IPU(s) a replica, " +
                             std::to_string(result.statistics.counts["arena bytes"]) + " bytes of arenas");
  if (log_enabled(LogLevel::kTrace)) log(LogLevel::kTrace, "program after all passes:\n" + result.ir_text);
  return result;
}

}  // namespace ipu::executable
