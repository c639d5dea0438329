#include "frontends/torch/executor/popart_options.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>

#include "passes/popart_patterns.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

// Enumerations are given as integers.
const std::map<PopartKind, std::set<std::string_view>>& table() {
  static const std::map<PopartKind, std::set<std::string_view>> options{
      {PopartKind::kInteger,
       {"accumulateOuterFragmentSettings.schedule",
        "accumulationAndReplicationReductionType",
        "autoRecomputation",
        "autodiffSettings.stitchStrategy",
        "automaticLossScalingSettings.gradientTensorTrackingMethod",
        "batchSerializationSettings.batchSchedule",
        "batchSerializationSettings.method",
        "batchSerializationSettings.transformContext",
        "meanAccumulationAndReplicationReductionStrategy",
        "mergeVarUpdate",
        "subgraphCopyingStrategy",
        "syntheticDataMode",
        "virtualGraphMode",
        "accumulationFactor",
        "automaticLossScalingSettings.updatePeriod",
        "batchSerializationSettings.factor",
        "compilationProgressTotal",
        "defaultBufferingDepth",
        "defaultPrefetchBufferingDepth",
        "executionPhaseSettings.phases",
        "executionPhaseSettings.stages",
        "finalDotOp",
        "firstDotOp",
        "globalReplicaOffset",
        "globalReplicationFactor",
        "looseThresholdAtPeak",
        "mergeVarUpdateMemThreshold",
        "numIOTiles",
        "swapLimitScheduler",
        "transitiveClosureOptimizationThreshold"}},
      {PopartKind::kText,
       {"cachePath", "customCodeletCompileFlags", "kahnTieBreaker", "logDir", "partialsTypeMatMuls",
        "saveInitializersToFile", "serializedPoprithmsShiftGraphsDir"}},
      {PopartKind::kReal,
       {"automaticLossScalingSettings.binEdgeLocation",
        "automaticLossScalingSettings.thresholdUpperCountProportion", "outlineSequenceBreakCost",
        "outlineThreshold", "timeLimitScheduler"}},
      {PopartKind::kBool,
       {"aliasZeroCopy",
        "constantWeights",
        "decomposeGradSum",
        "delayVarUpdates",
        "enableExplicitIR",
        "enableExplicitMainLoops",
        "enableFullyConnectedPass",
        "enableGradientAccumulation",
        "enableInplaceAmbiguityChecking",
        "enableMergeExchange",
        "enableNonStableSoftmax",
        "enableOutlining",
        "enableOutliningCopyCostPruning",
        "enablePipelining",
        "enableReplicatedGraphs",
        "enableSerializedMatmuls",
        "enableStableNorm",
        "enableSupportedDataTypeCasting",
        "explicitRecomputation",
        "groupHostSync",
        "groupNormStridedChannelGrouping",
        "opxAliasChecking",
        "opxModifyChecking",
        "scheduleNonWeightUpdateGradientConsumersEarly",
        "separateCallOpPdfs",
        "strictOpVersions",
        "batchSerializationSettings.concatOnVirtualGraphChange",
        "batchSerializationSettings.concatOnExecutionPhaseChange",
        "batchSerializationSettings.concatOnPipelineStageChange",
        "replicatedCollectivesSettings.prepareScheduleForMergingCollectives",
        "replicatedCollectivesSettings.mergeAllReduceCollectives",
        "automaticLossScalingSettings.enabled",
        "disableGradAccumulationTensorStreams",
        "disableOptimizerStateTensorStreams",
        "enableDistributedReplicatedGraphs",
        "enableFloatingPointChecks",
        "enableLoadAndOffloadRNGState",
        "enablePrefetchDatastreams",
        "enableStochasticRounding",
        "ensureFp32LossScaleTensor",
        "instrumentWithHardwareCycleCounter",
        "rearrangeAnchorsOnHost",
        "rearrangeStreamsOnHost",
        "useHostCopyOps",
        "compileEngine",
        "dotOpNames",
        "enableEngineCaching",
        "exportPoplarComputationGraph",
        "exportPoplarVertexGraph"}},
      {PopartKind::kContainer,
       {"accumulateOuterFragmentSettings.excludedVirtualGraphs", "convolutionOptions", "customCodelets",
        "dotChecks", "engineOptions", "gclOptions", "hardwareInstrumentations", "lstmOptions",
        "matmulOptions", "reportOptions", "updatableNamedBuffers"}},
  };
  return options;
}

// Options that poptorch itself reads.
const std::map<std::string_view, PopartKind>& general() {
  using enum PopartKind;
  static const std::map<std::string_view, PopartKind> options{
      {"accumulation_and_replication_reduction_type", kInteger},
      {"auto_round_num_ipus", kBool},
      {"available_memory_proportion", kContainer},
      {"broadcast_buffers", kBool},
      {"connection_type", kInteger},
      {"device_iterations", kInteger},
      {"distributed_process_id", kInteger},
      {"execution_mode", kInteger},
      {"gradient_accumulation", kInteger},
      {"input_cgt", kInteger},
      {"input_group_size", kInteger},
      {"ipu_id", kInteger},
      {"ipu_version", kInteger},
      {"ipuof_configs", kContainer},
      {"location_accumulator", kContainer},
      {"location_activation", kContainer},
      {"location_optimizer", kContainer},
      {"location_weight", kContainer},
      {"log_dir", kText},
      {"max_repeat_logs", kInteger},
      {"model_name", kText},
      {"num_distributed_processes", kInteger},
      {"output_mode", kInteger},
      {"output_return_period", kInteger},
      {"patterns", kContainer},
      {"patterns_level", kInteger},
      {"random_seed", kInteger},
      {"replication_factor", kInteger},
      {"separate_backward_phase", kBool},
      {"serial_phases_execution", kBool},
      {"sync_pattern", kInteger},
      {"tensors_liveness", kInteger},
      {"use_model", kBool},
  };
  return options;
}

std::string_view name_of(PopartKind kind) {
  constexpr std::array<std::string_view, 5> names{"bool", "int (or an enumeration)", "float", "str",
                                                  "list, set or dict of str"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace

bool is_general_option(std::string_view name) { return general().contains(name); }

void check_option(std::string_view name, PopartKind kind) {
  if (auto at = general().find(name); at != general().end()) {
    if (kind == at->second || (kind == PopartKind::kBool && at->second == PopartKind::kInteger)) return;
    throw Error(ErrorCode::kOption, "unexpected value of an option: " + std::string(name) +
                                        " got a value of type " + std::string(name_of(kind)) +
                                        " and takes one of type " + std::string(name_of(at->second)));
  }
  const auto& options = table();
  if (options.at(kind).contains(name)) return;
  std::string text = "unknown back-end option: _Popart.set(\"" + std::string(name) +
                     "\", ...) with a value of type " + std::string(name_of(kind));
  for (const auto& [other, names] : options)
    if (names.contains(name))
      throw Error(ErrorCode::kOption,
                  text + ". The option takes a value of type " + std::string(name_of(other)));
  throw Error(ErrorCode::kOption, text + ". No option of any type has that name");
}

void check_value(std::string_view name, int64_t value) {
  using Words = std::vector<std::string_view>;
  static const Words reductions{"Sum", "Mean", "NoReduction"};
  static const std::map<std::string_view, Words> words{
      {"accumulationAndReplicationReductionType", reductions},
      {"accumulation_and_replication_reduction_type", reductions},
      {"autoRecomputation", {"none", "standard", "norm only", "pipeline", "all"}},
      {"automaticLossScalingSettings.gradientTensorTrackingMethod",
       {"all gradients but those of views", "products and convolutions", "tensors that are named"}},
      {"connection_type", {"Always", "OnDemand", "Never"}},
      {"execution_mode", {"pipelined", "sharded", "phased"}},
      {"input_cgt", {"All", "Consecutive", "Orthogonal", "NoGrouping"}},
      {"meanAccumulationAndReplicationReductionStrategy", {"Running", "Post", "PostAndLoss"}},
      {"mergeVarUpdate", {"off", "all", "auto loose", "auto tight"}},
      {"output_mode", {"Final", "EveryN", "All", "Sum"}},
      {"subgraphCopyingStrategy", {"on enter and exit", "just in time"}},
      {"sync_pattern", {"Full", "SinglePipeline", "ReplicaAndLadder"}},
      {"syntheticDataMode", {"off", "zeros", "random normal"}},
      {"tensors_liveness",
       {"AlwaysLive", "OffChipAfterFwd", "OffChipAfterFwdNoOverlap", "OffChipAfterEachPhase"}},
      {"virtualGraphMode", {"off", "manual", "auto", "execution phases"}}};
  auto at = words.find(name);
  if (at == words.end() || (value >= 0 && value < std::ssize(at->second))) return;
  std::string list;
  for (size_t i = 0; i < at->second.size(); ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(i) + " " + std::string(at->second[i]);
  const bool is_general = general().contains(name);
  throw Error(
      ErrorCode::kOption,
      (is_general ? "unknown value of an option: " : "unknown value of a back-end option: _Popart.set(\"") +
          std::string(name) + (is_general ? " = " : "\", ") + std::to_string(value) +
          (is_general ? "; values are " : "); values are ") + list);
}

void check_pattern(std::string_view name, bool on) {
  const passes::Pattern* pattern = passes::find_pattern(name);
  if (pattern == nullptr)
    throw Error(ErrorCode::kOption, "unknown pattern: _Popart.setPatterns({\"" + std::string(name) +
                                        "\": ...}); PopART has no pattern of that name");
  if (pattern->state == passes::PatternState::kMandatory && !on)
    throw Error(ErrorCode::kOption, "mandatory pattern: _Popart.setPatterns({\"" + std::string(name) +
                                        "\": False}); the back end cannot do without it");
}

void check_pattern_level(int64_t level) {
  if (level < 0 || level > 3)
    throw Error(ErrorCode::kOption,
                "unknown pattern level: _Popart.setPatterns(..., level=" + std::to_string(level) +
                    "); levels are 0 none, 1 minimal, 2 default, 3 all");
}

void check_device_choice(bool offline, bool ipu_model, bool fixed_device, bool counts_cycles) {
  const char* offline_text = "poptorch.ConnectionType.Never (offline compilation) ";
  if (offline && ipu_model)
    throw Error(ErrorCode::kOption,
                std::string("options exclude each other: ") + offline_text +
                    "and the IPU model. Use another connection type, or useIpuModel(False)");
  if (offline && fixed_device)
    throw Error(ErrorCode::kOption, std::string("options exclude each other: ") + offline_text +
                                        "and useIpuId. Nothing is attached offline: leave one of them out");
  if (counts_cycles && (offline || ipu_model))
    throw Error(ErrorCode::kOption,
                std::string("cycles cannot be counted: logCycleCount needs hardware, and the ") +
                    (offline ? "target is offline" : "IPU model is selected") + ". Leave one of them out");
}

}  // namespace ipu::frontends::torch_frontend
