// Update rules as IR: what one weight update does to a parameter and its state (equations:
// docs/optimizers.md). A hyper-parameter is a compile-time constant or a streamed 0-d f32 value, by its mark.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace ipu::optimizers {

enum class Kind : uint8_t {
  kSgdCombined = 0,
  kSgdSeparate = 1
};  // numbers of the published contract; more to come

struct HyperParameter {
  double value = 0.0;
  bool constant = true;  // false: streamed, may change between runs
};

struct Group {
  std::map<std::string, HyperParameter>
      hyper;  // "lr", "momentum", "dampening", "weight_decay", "velocity_scaling"
  bool nesterov = false;
};

struct Spec {
  Kind kind = Kind::kSgdSeparate;
  std::vector<Group> groups;
  std::map<std::string, int> group_of;  // parameter name → group; a parameter in no group is not updated
  HyperParameter loss_scaling{1.0, true};
  // Filled in by the step builder: micro-batches per update; whether the accumulator holds the mean of the
  // gradients so far instead of their sum (half precision accumulators, which a sum could overflow).
  int64_t accumulation = 1;
  bool running_mean = false;
  DType accum_dtype = DType::kF32, velocity_dtype = DType::kF32;
};

// Name of the host stream that carries a variable hyper-parameter: "optimizer.0.lr";
// "optimizer.loss_scaling".
std::string stream_name(int group, const std::string& hyper);

struct State {
  std::string suffix;  // "Accl1": the variable is "Accl1___<parameter>"
  DType dtype;
  double initial = 0.0;
  bool is_scalar = false;  // 0-d instead of the shape of the parameter
};
// State tensors the rule keeps for parameters of `group`; empty for plain SGD.
std::vector<State> state_of(const Spec& spec, int group);
std::string state_name(const State& state, const std::string& parameter);  // "Accl1___fc.weight"

// The sum over micro-batches. It starts a weight update at begin_accumulation (zeros; the combined variant
// sums into its state) and takes in one scaled gradient per micro-batch, number `micro_batch` of the update
// (i32[]; read for a running mean only). `gradient_divisor` as in build_update.
struct AccumulationInput {
  ir::Value* weight;
  std::vector<ir::Value*> state;
  std::map<std::string, ir::Value*> streamed;
};
ir::Value* begin_accumulation(ir::Builder& builder, const Spec& spec, int group,
                              const AccumulationInput& input);
ir::Value* accumulate(ir::Builder& builder, const Spec& spec, int group, ir::Value* accumulator,
                      ir::Value* gradient, const std::map<std::string, ir::Value*>& streamed,
                      double gradient_divisor, ir::Value* micro_batch = nullptr);
DType accumulator_dtype(const Spec& spec, int group);
// The rule sums micro-batches into its state 0 (combined variant) instead of an accumulator of their own.
bool accumulates_in_state(const Spec& spec, int group);

struct UpdateInput {
  ir::Value* weight;
  // What accumulate() gave after the last micro-batch, loss scaling still in it; the separate variant with
  // one micro-batch takes the gradient itself.
  ir::Value* gradient;
  std::vector<ir::Value*> state;  // as state_of()
  // 0-d f32 value of each variable hyper-parameter by name ("lr", ..., "loss_scaling"); constants are not in
  // it.
  std::map<std::string, ir::Value*> streamed;
};
struct UpdateResult {
  ir::Value* weight;
  std::vector<ir::Value*> state;
};
// Emits the update, elementwise ops only. `gradient_divisor`: accumulation count × replicas for mean
// reduction, else 1.
UpdateResult build_update(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                          double gradient_divisor);

// Throws Error(kOptimizer) when `next` changes a constant, the kind, or the grouping of `compiled`.
// Everything a frontend can get wrong in a Spec: groups that do not exist, hyper-parameters that are missing.
void check_spec(const Spec& spec);
void check_compatible(const Spec& compiled, const Spec& next);

}  // namespace ipu::optimizers
