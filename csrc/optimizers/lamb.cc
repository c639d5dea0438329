// LAMB: Adam's direction with decoupled decay, scaled so that its norm follows the norm of the weight
// (docs/optimizers.md has the equations). The two norms are the only parts that are not elementwise.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

// min(‖w‖, max_weight_norm) / ‖u‖; 1 when either norm is 0.
Value* trust_ratio(const Update& u, Value* weight, Value* direction) {
  ir::Builder& builder = u.builder;
  Value* weight_norm = u.op("sqrt", squared_norm(builder, weight));
  Value* direction_norm = u.op("sqrt", squared_norm(builder, direction));
  Value* zero = builder.scalar(DType::kF32, 0.0);
  Value* both =
      u.op("logical_and", u.op("greater", weight_norm, zero), u.op("greater", direction_norm, zero));
  // A bound of 0 means none in PopART.
  if (const Scalar bound = u.hyper("max_weight_norm"); u.spec.is_popart)
    both = u.op("logical_and", both, u.op("greater", bound.materialize(builder), zero));
  Value* limited = u.op("minimum", weight_norm, u.hyper("max_weight_norm").materialize(builder));
  return ops::build(builder, "where",
                    {both, u.op("div", limited, direction_norm), builder.scalar(DType::kF32, 1.0)});
}

UpdateResult update(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  const Moments moments = adam_moments(u, u.clipped(&adam_gradient));
  Value* direction = u.op("div", multiply(builder, moments.m, moments.scale), moments.denominator);
  const Scalar decay = u.hyper("weight_decay");
  if (!u.decays_gradient() && !decay.is(0.0))
    direction = u.op("add", direction, multiply(builder, weight, decay));
  const Scalar rate = u.hyper("lr") * Scalar(&builder, trust_ratio(u, weight, direction));
  return u.result(u.op("sub", weight, multiply(builder, direction, rate)), moments.state);
}

}  // namespace

const Rule kLambRule{
    {"lr", "beta1", "beta2", "eps", "weight_decay", "max_weight_norm"}, &adam_state, &update, &adam_gradient};

}  // namespace ipu::optimizers
