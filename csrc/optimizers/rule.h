// What the rules of one family (sgd.cc, adam.cc, lamb.cc, rmsprop.cc) share, and the table that finds them.
// Private to this room. A rule sees a weight, its reduced gradient and its state, nothing else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "optimizers/optimizer.h"
#include "optimizers/scalar.h"

namespace ipu::optimizers {

// Hyper-parameters of one group as scalars: numbers where constant, values where streamed.
class Hypers {
 public:
  Hypers(ir::Builder& builder, const Spec& spec, int group, const std::map<std::string, ir::Value*>& streamed)
      : builder_(builder), spec_(spec), group_(group), streamed_(streamed) {}

  Scalar operator()(const std::string& name) const;
  Scalar rest(const std::string& name) const;       // 1 - x
  Scalar logarithm(const std::string& name) const;  // ln x
  Scalar loss_scaling() const;

 private:
  Scalar get(const std::string& stream, bool constant, double value) const;
  ir::Builder& builder_;
  const Spec& spec_;
  int group_;
  const std::map<std::string, ir::Value*>& streamed_;
};

// A hyper-parameter of the group is the constant `value`; one that is not there counts as 0.
bool is_fixed(const Spec& spec, int group, const std::string& name, double value);

// One update under construction.
struct Update {
  ir::Builder& builder;
  const Spec& spec;
  int group;
  const UpdateInput& input;
  double gradient_divisor;
  Hypers hyper{builder, spec, group, input.streamed};

  ir::Value* weight() const;  // f32
  // The gradient without loss scaling and divisor, clipped, f32.
  ir::Value* gradient() const;
  ir::Value* gradient_with_decay(ir::Value* weight) const;  // + weight_decay * weight (L2)
  ir::Value* state(size_t i) const;                         // f32
  bool decays_gradient() const;                             // else the weight
  // What measured_value() is, clipped.
  ir::Value* clipped(ir::Value* (*measure)(const Update& update)) const;
  // factor * old + share * new
  ir::Value* blend(ir::Value* old_value, const Scalar& factor, ir::Value* new_value,
                   const Scalar& share) const;
  // Values in the types of weight and state.
  UpdateResult result(ir::Value* weight, const std::vector<ir::Value*>& state) const;

  ir::Value* op(const char* kind, ir::Value* a, ir::Value* b) const;
  ir::Value* op(const char* kind, ir::Value* a) const;
};

struct Rule {
  std::vector<std::string> hypers;  // every group must have them
  std::vector<StateTensor> (*state)(const Spec& spec, int group);
  UpdateResult (*update)(const Update& update);
  ir::Value* (*measure)(const Update& update) = nullptr;  // of clip groups; nullptr: it does not clip
};
const Rule& rule_of(Kind kind);
std::string kind_name(Kind kind);
bool corrects_bias(Kind kind);

// The families.
extern const Rule kSgdRule, kAdamRule, kLambRule, kRmsPropRule, kAdaGradRule, kAdaDeltaRule;

// Adam's moments m and v and the direction they give, without decay; AdamW and LAMB go on from there.
struct Moments {
  std::vector<ir::Value*> state;  // as state_of()
  // m̂ / (√v̂ + ε) is `m` · scale / denominator
  ir::Value *m, *denominator;
  Scalar scale;
};
Moments adam_moments(const Update& update, ir::Value* gradient);
std::vector<StateTensor> adam_state(const Spec& spec, int group);
// The gradient that enters the moments, before clipping.
ir::Value* adam_gradient(const Update& update);

// Types of the three states of a group.
struct StateTypes {
  DType first, second, third;
};
StateTypes state_types(const Spec& spec, int group);

// The momentum of RMSprop, AdaGrad and AdaDelta is not the constant 0.
bool has_momentum(const Spec& spec, int group);

// The combined variant of SGD sums gradients into its state.
ir::Value* combined_start(ir::Builder& builder, const Spec& spec, int group, const AccumulationInput& input);
Scalar combined_share(const Hypers& hyper);  // of an unscaled gradient

}  // namespace ipu::optimizers
