// From a captured forward graph to the program of one call: device iterations, accumulation, gradients,
// updates, streams and output modes. Shared by the frontends; the forward graph stays as captured until here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/common/memory_placement.h"
#include "ir/seed_stream.h"
#include "ir/strategy.h"
#include "optimizers/optimizer.h"

namespace ipu::frontends {

// How the forward graph's inputs and outputs meet the world. Indices are those of graph->inputs()/outputs().
struct ForwardGraph {
  ir::Graph* graph = nullptr;
  struct Input {
    // kSeed: u32[2], another one for each micro-batch of each replica, iteration and run.
    enum class Kind : uint8_t { kHost, kVariable, kSeed } kind = Kind::kHost;
    std::string name;  // stream or variable
    DType host_dtype = DType::kF32;
    bool trainable = false;         // variables: gets a gradient and an update
    bool is_parameter = false;      // variables: lives where weights live
    ReplicaGrouping grouping = {};  // variables: replicas of a group hold the same value
    ir::Retrieval retrieval = ir::Retrieval::kOnePerGroup;
    ir::ExchangeStrategy exchange = ir::ExchangeStrategy::kJustInTime;  // host: else on I/O tiles
  };
  struct Output {
    enum class Kind : uint8_t { kHost, kState } kind = Kind::kHost;
    std::string name;  // stream; for kState the variable that takes this value after the micro-batch
    DType host_dtype = DType::kF32;
    ir::OutputMode mode = ir::OutputMode::kAll;
    int64_t period = 1;
    int times_returned = 1;  // host: places in the results of forward
    ir::ExchangeStrategy exchange = ir::ExchangeStrategy::kJustInTime;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

using ir::Schedule;

// Automatic loss scaling (docs/optimizers.md): a factor beside the loss scaling of the optimizer, halved or doubled after
// weight updates by how many elements of the f16 gradients are large.
struct LossScaling {
  bool is_automatic = false;
  // kProducts: of their inputs; kNamed: of `tracked`.
  enum class Tracking : uint8_t { kAll, kProducts, kNamed } tracking = Tracking::kAll;
  std::vector<ir::Value*> tracked;  // in the forward graph
  double bin_edge = 0.125;          // of the largest f16: what is above counts
  double upper_proportion = 1e-7;   // of all elements: more are too many
  int64_t period = 1;               // in weight updates
  bool decides_first = false;       // after the first update of each period (PopART), else after the last
  DType factor_dtype = DType::kF32;
};
// The variable that holds the factor, and what anchors call the product of both.
inline constexpr const char* kLossScaleFactor = "lossScaleUpdateFactor";
inline constexpr const char* kAccumulated =
    "Accum___";  // and a parameter's name: its gradients so far, summed
inline constexpr const char* kFinalGradient = "FinalReducedGradient___";  // what enters its update
inline constexpr const char* kFinalLossScale = "finalLossScale";
inline constexpr const char* kGlobalNorm = "GlobalNorm___";  // and a number: of what a clip group measures
// f32[2]: elements of the gradients that are small and large, over the micro-batches of an update so far, of one replica.
inline constexpr const char* kLossScalingStatistics = "Accum___autoLossScaleStats";
// Entry point with the forward pass alone.
inline constexpr const char* kForwardProgram = "implicitPipeliningFwdOnly";
// Scaled optimizer state: the loss scaling that the state was made with.
inline constexpr const char* kPreviousLossScaling = "PreviousLossScaling_FLOAT";

struct StepOptions {
  bool training = false;
  ir::Value* loss = nullptr;  // in the forward graph; scalar floating
  optimizers::Spec optimizer;
  bool mean_reduction = true;  // over accumulation and replicas
  bool running_mean = false;   // accumulators hold the mean so far (always so with f16 accumulators)
  int64_t device_iterations = 1, accumulation = 1;
  int replicas = 1;  // of all processes of the job: gradients are summed over them
  Schedule schedule = Schedule::kPipelined;
  ir::RecomputationMode recomputation = ir::RecomputationMode::kNone;
  // Block id → (stage, ipu); "" is what comes before the first block.
  struct Placement {
    int stage = 0, ipu = 0;
    int phase = 0;  // Schedule::kPhased, as the strategy counts; stages are those of the phase. -1: in none
  };
  std::map<std::string, Placement> places;
  bool pipeline_fill_is_checked = false;  // by the front end, which counts stages in its own way
  // Gradients and new values of parameters that go to the host: one element a micro-batch and one an update.
  struct Anchor {
    std::string parameter, stream;
    ir::OutputMode mode = ir::OutputMode::kFinal;
    int64_t period = 1;
  };
  std::vector<Anchor> gradient_anchors, update_anchors;
  // What the update of parameters keeps, by the names of the states as `parameter`: "Accl1___w", "Step___w"; the sums
  // "Accum___w" (of a replica so far, one element a micro-batch) and "FinalReducedGradient___w" (of all); the norms of
  // clip groups, "GlobalNorm___0".
  std::vector<Anchor> state_anchors;
  // Gradients of any values of the forward graph, one element a micro-batch: summed over the readers of the value,
  // loss scaling in it. They are made in a program that trains nothing, too.
  struct ValueAnchor {
    ir::Value* value = nullptr;
    std::string stream;
    ir::OutputMode mode = ir::OutputMode::kFinal;
    int64_t period = 1;
  };
  std::vector<ValueAnchor> value_gradients;
  bool counts_micro_batches = false;  // periods of outputs and anchors; else device iterations
  // Anchors of automatic loss scaling. `parameter` is kFinalLossScale or kLossScaleFactor (both as the micro-batch used
  // them) or kLossScalingStatistics.
  std::vector<Anchor> scaling_anchors;
  bool has_forward_program = false;  // a second entry point
  LossScaling loss_scaling;
  bool stochastic_rounding = false;                       // of f16 results
  bool rounds_with_own_seed = false;                      // else with the seed of random ops
  bool half_products = false, half_convolutions = false;  // f16 partial sums of f16 products
  PhaseOptions phases;
  TensorLocation weights, optimizer_state, accumulators, activations;
  std::map<std::string, TensorLocation> locations;  // of single variables, states and sums; win over the four
  int replicas_of_process = 1;                      // shards stay inside a process
  int64_t io_tiles = 0;                             // reserved on each IPU; 0: none
  int64_t prefetch_depth = 1;  // elements of an overlapped input that wait for their turn
};

// There when an input is a seed, and where f16 results are rounded at random with that seed.
using ir::kSeedStream;

// Builds entry point "main" (and variables, streams, optimizer state) into the forward graph's module. The
// forward graph and the gradient graph are called from it. Pipelined with more than one IPU: main holds a
// `pipeline` op. Throws Error: kNoLoss, kGradientAccumulationTooSmall, kDeviceIterationsTooSmall,
// kOutputPeriod, kNotDifferentiable, kOption.
// Returns the values of the forward graph that have a gradient in the program; the loss is one of them.
std::vector<const ir::Value*> build_step(const ForwardGraph& forward, const StepOptions& options);

// In `settings.outline` of a loss whose gradient forward itself takes: it is not what is trained on, unless it is
// true (forward keeps the graph) and there is no other.
inline constexpr char kInnerLoss[] = "inner_loss";

// Losses of a captured graph (ops with the loss trait): the final one, to which all others lead. Those that
// no gradient connects to an input from `first_state` on do not count, unless there are no others.
// Error(kNoLoss), Error(kSeveralLosses).
ir::Value* find_final_loss(const ir::Graph& graph, int first_state = 0);
// The same without words: nullptr where there is none, or several.
const ir::Op* final_loss_of(const ir::Graph& graph, int first_state = 0);
// What is computed from the loss, which the gradients do not see: `return out, 3 * loss`. nullptr for nothing.
const ir::Op* reader_of_loss(const ir::Value& loss);

}  // namespace ipu::frontends
