// Update rules as IR: what one weight update does to a parameter and its state (equations: docs/optimizers.md).
// A hyper-parameter is a compile-time constant or a streamed 0-d f32 value, by its mark.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace ipu::optimizers {

enum class Kind : uint8_t { kSgdCombined = 0, kSgdSeparate = 1 };  // numbers of the published contract; more to come

struct HyperParameter {
  double value = 0.0;
  bool constant = true;  // false: streamed, may change between runs
};

struct Group {
  std::map<std::string, HyperParameter> hyper;  // "lr", "momentum", "dampening", "weight_decay", "velocity_scaling"
  bool nesterov = false;
};

struct Spec {
  Kind kind = Kind::kSgdSeparate;
  std::vector<Group> groups;
  std::map<std::string, int> group_of;  // parameter name → group; a parameter in no group is not updated
  HyperParameter loss_scaling{1.0, true};
  DType accum_dtype = DType::kF32, velocity_dtype = DType::kF32;
};

// Name of the host stream that carries a variable hyper-parameter: "optimizer.0.lr"; "optimizer.loss_scaling".
std::string stream_name(int group, const std::string& hyper);

struct State {
  std::string suffix;  // "Accl1" : the variable is "Accl1___<parameter>"
  DType dtype;
  double initial = 0.0;
};
// State tensors (shape of the parameter) the rule keeps for parameters of `group`; empty for plain SGD.
std::vector<State> state_of(const Spec& spec, int group);

struct UpdateInput {
  ir::Value* weight;
  ir::Value* gradient;               // reduced, loss scaling still in it, dtype of the accumulator
  std::vector<ir::Value*> state;     // as state_of()
  // 0-d f32 value of each variable hyper-parameter by name ("lr", ..., "loss_scaling"); constants are not in it.
  std::map<std::string, ir::Value*> streamed;
};
struct UpdateResult {
  ir::Value* weight;
  std::vector<ir::Value*> state;
};
// Emits the update. `gradient_divisor`: accumulation count × replicas for mean reduction, else 1.
UpdateResult build_update(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                          double gradient_divisor);

// Throws Error(kOptimizer) when `next` changes a constant, the kind, or the grouping of `compiled`.
void check_compatible(const Spec& compiled, const Spec& next);

}  // namespace ipu::optimizers
