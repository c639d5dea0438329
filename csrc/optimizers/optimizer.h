// Update rules as IR: what one weight update does to a parameter and its state (equations:
// docs/optimizers.md). A hyper-parameter is a compile-time constant or a streamed 0-d f32 value, by its mark.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace ipu::optimizers {

enum class Kind : uint8_t {  // numbers of the published contract
  kSgdCombined = 0,
  kSgdSeparate = 1,
  kAdam = 2,
  kAdamW = 3,
  kAdamWNoBias = 4,  // no bias correction
  kRmsProp = 5,
  kRmsPropCentred = 6,
  kLamb = 7,
  kLambNoBias = 8,
  kAdaMax = 9,
  kAdaGrad = 10,
  kAdaDelta = 11
};

// Where weight decay acts: in the change of the weight, or in the gradient (L2 regularization).
enum class Decay : uint8_t { kOfKind = 0, kWeight = 1, kGradient = 2 };

struct HyperParameter {
  double value = 0.0;
  bool constant = true;  // false: streamed, may change between runs
};

struct Group {
  // "lr" and "weight_decay" of all; "momentum", "dampening", "velocity_scaling" of SGD; "beta1", "beta2",
  // "eps" of Adam, AdamW and LAMB; "alpha", "eps", "momentum" of RMSprop; "max_weight_norm" of LAMB.
  std::map<std::string, HyperParameter> hyper;
  bool nesterov = false;
  // Set in PopART's specs, whose groups have types of their own; other specs use the types of the spec.
  DType accum_dtype = DType::kF32, first_dtype = DType::kF32, second_dtype = DType::kF32,
        third_dtype = DType::kF32;
};

// Parameters whose values (measured_value()) are scaled down together to a 2-norm (PopART).
struct ClipGroup {
  std::vector<std::string> parameters;
  double max_norm = 0.0;
};

struct Spec {
  Kind kind = Kind::kSgdSeparate;
  std::vector<Group> groups;
  std::map<std::string, int> group_of;  // parameter name → group; a parameter in no group is not updated
  HyperParameter loss_scaling{1.0, true};
  // Gradients are scaled down together to this 2-norm over all trained parameters; infinity: never.
  double max_grad_norm = std::numeric_limits<double>::infinity();
  bool tf_variant = false;  // RMSprop as TensorFlow has it
  // Filled in by the step builder: micro-batches per update; whether the accumulator holds the mean of the
  // gradients so far instead of their sum (half precision accumulators, which a sum could overflow).
  int64_t accumulation = 1;
  bool running_mean = false;
  // So are replicas, and whether the sum over them is divided as it is made (PopART's running mean), where
  // averages_replicas().
  int64_t replicas = 1;
  bool running_mean_of_replicas = false;
  DType accum_dtype = DType::kF32;
  DType velocity_dtype = DType::kF32;  // SGD's velocity, Adam's m, the mean square of RMSprop
  DType second_dtype = DType::kF32;    // Adam's v, the mean of centred RMSprop
  // PopART's contract where it differs from PopTorch's: types by group, SGD without momentum has no state, its
  // velocity is scaled in both variants, the combined one starts from the first value of the weight.
  bool is_popart = false;
  Decay decay = Decay::kOfKind;
  bool scaled_state = false;  // Adam's moments are those of gradients with loss scaling
  std::vector<ClipGroup> clip_groups;

  bool clips() const { return max_grad_norm != std::numeric_limits<double>::infinity(); }
  bool is_combined() const { return kind == Kind::kSgdCombined; }
};

// Name of the host stream that carries a variable hyper-parameter: "optimizer.0.lr";
// "optimizer.loss_scaling".
std::string stream_name(int group, const std::string& hyper);
// What the streams of a group carry, by hyper name: the variable hyper-parameters, and what the rule needs of
// them in more digits than f32 leaves ("beta1.rest" is 1 - beta1, "beta1.log" its logarithm).
std::map<std::string, double> streamed_hypers(const Spec& spec, int group);

struct StateTensor {
  std::string suffix;  // "Accl1": the variable is "Accl1___<parameter>"
  DType dtype;
  double initial = 0.0;
  bool is_scalar = false;  // 0-d instead of the shape of the parameter
  double of_weight = 0.0;  // it starts at this times the first value of the parameter, plus `initial`
  std::string tail = {};   // behind the name of the parameter
};
// State tensors the rule keeps for parameters of `group`; empty for plain SGD.
std::vector<StateTensor> state_of(const Spec& spec, int group);
std::string state_name(const StateTensor& state, const std::string& parameter);  // "Accl1___fc.weight"

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
// The gradients that enter the update are the mean of the replicas' accumulators, not their sum.
bool averages_replicas(const Spec& spec, int group);
// What a gradient that went through accumulator and replicas is still to be divided by.
double divisor_left(const Spec& spec, int group, double gradient_divisor);
// The rule sums micro-batches into its state 0 (combined variant) instead of an accumulator of their own.
bool accumulates_in_state(const Spec& spec, int group);

struct UpdateInput {
  ir::Value* weight;
  // What accumulate() gave after the last micro-batch, loss scaling still in it; the separate variant with
  // one micro-batch takes the gradient itself.
  ir::Value* gradient;
  std::vector<ir::Value*> state;  // as state_of()
  // 0-d f32 value of each of streamed_hypers(), and of "loss_scaling" when variable; constants are not in it.
  std::map<std::string, ir::Value*> streamed;
  // 0-d f32: what the gradient is multiplied with instead of being divided by loss scaling and divisor
  // (gradient_factor(), when the spec clips); nullptr otherwise.
  ir::Value* gradient_factor = nullptr;
  // Set for members of clip groups: measured_value() of this parameter, and the 0-d f32 it is multiplied with.
  ir::Value *measured = nullptr, *clip_factor = nullptr;
  // Scaled state with a variable loss scaling: how much larger it is than at the update before, 0-d f32.
  ir::Value* scaling_ratio = nullptr;
};
struct UpdateResult {
  ir::Value* weight;
  std::vector<ir::Value*> state;
};
// Emits the update: elementwise ops on tensors and scalars that are computed once (LAMB: two norms besides).
// `gradient_divisor`: accumulation count × replicas for mean reduction, else 1.
UpdateResult build_update(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                          double gradient_divisor);

// Clipping by the global norm, for specs that clip. squared_norm() of each gradient (as it enters the update)
// is to be added up; gradient_factor() turns the sum n² into min(1, max_grad_norm / n), with the division by
// loss scaling and divisor in it.
ir::Value* squared_norm(ir::Builder& builder, ir::Value* tensor);
ir::Value* gradient_factor(ir::Builder& builder, const Spec& spec, ir::Value* squared,
                           const std::map<std::string, ir::Value*>& streamed, double gradient_divisor);

// Clipping by groups. What is measured, in f32: the summed gradient as it comes (SGD without momentum), what the
// rate is multiplied with (SGD with momentum), the gradient that enters the moments (Adam, LAMB).
ir::Value* measured_value(ir::Builder& builder, const Spec& spec, int group, const UpdateInput& input,
                          double gradient_divisor);
// max_norm / max(n, max_norm) from the sum n² over the group.
ir::Value* clip_factor(ir::Builder& builder, double max_norm, ir::Value* norm);

// Throws Error(kOptimizer) for what a frontend can get wrong in a Spec: groups that do not exist,
// hyper-parameters that are missing, values that cannot be meant.
void check_spec(const Spec& spec);
// Throws Error(kOptimizer) when `next` changes a constant, the kind, or the grouping of `compiled`.
void check_compatible(const Spec& compiled, const Spec& next);

}  // namespace ipu::optimizers
