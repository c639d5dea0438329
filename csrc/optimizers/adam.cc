// Adam, AdamW, AdaMax and the moments that LAMB shares (docs/optimizers.md has the equations). Bias correction is
// taken out of the tensors: with c1 = 1 - β1^t and c2 = 1 - β2^t,
//   m̂ / (√v̂ + ε) = m · (√c2 / c1) / (√v + ε·√c2),
// so that t costs a few scalar ops per parameter and none per element. 1 - β^t is -expm1(t · ln β), which
// keeps its digits while t is small.
#include <cmath>

#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

Scalar bias_correction(const Update& u, Value* step, const std::string& beta) {
  const Scalar exponent = Scalar(&u.builder, step) * u.hyper.logarithm(beta);
  Value* grown = u.op("expm1", exponent.materialize(u.builder));
  return Scalar(&u.builder, u.op("neg", grown));
}

UpdateResult update(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  const Moments moments = adam_moments(u, u.clipped(&adam_gradient));
  const Scalar lr = u.hyper("lr");
  Value* change = u.op("div", multiply(builder, moments.m, moments.scale * lr), moments.denominator);
  const Scalar decay = u.hyper("weight_decay");
  if (!u.decays_gradient() && !decay.is(0.0))
    change = u.op("add", change, multiply(builder, weight, lr * decay));
  return u.result(u.op("sub", weight, change), moments.state);
}

}  // namespace

std::vector<StateTensor> adam_state(const Spec& spec, int group) {
  const StateTypes types = state_types(spec, group);
  std::vector<StateTensor> state{{"Accl1", types.first}, {"Accl2", types.second}};
  if (corrects_bias(spec.kind)) state.push_back({"Step", DType::kF32, 0.0, true});
  return state;
}

Value* adam_gradient(const Update& u) {
  return u.decays_gradient() ? u.gradient_with_decay(u.weight()) : u.gradient();
}

Moments adam_moments(const Update& u, Value* gradient) {
  ir::Builder& builder = u.builder;
  const bool is_max = u.spec.kind == Kind::kAdaMax;
  Value *old_m = u.state(0), *old_v = u.state(1);
  if (u.input.scaling_ratio != nullptr) {  // as if they had been made with the loss scaling of now
    const Scalar ratio(&builder, u.input.scaling_ratio);
    old_m = multiply(builder, old_m, ratio);
    old_v = multiply(builder, old_v, is_max ? ratio : ratio * ratio);
  }
  Value* m = u.blend(old_m, u.hyper("beta1"), gradient, u.hyper.rest("beta1"));
  Value* v;
  if (is_max) {
    v = u.op("maximum", multiply(builder, old_v, u.hyper("beta2")), u.op("abs", gradient));
  } else {
    Value* square = u.op("mul", gradient, gradient);
    v = u.blend(old_v, u.hyper("beta2"), square, u.hyper.rest("beta2"));
  }
  std::vector<Value*> state{m, v};
  Scalar scale = 1.0, eps = u.hyper("eps");
  if (u.spec.scaled_state) eps = eps * u.hyper.loss_scaling();
  if (corrects_bias(u.spec.kind)) {
    Value* step = u.op("add", u.state(2), builder.scalar(DType::kF32, 1.0));
    state.push_back(step);
    if (is_max) {
      scale = 1.0 / bias_correction(u, step, "beta1");
    } else {
      const Scalar root = apply(builder, "sqrt", std::sqrt, bias_correction(u, step, "beta2"));
      scale = root / bias_correction(u, step, "beta1");
      eps = eps * root;
    }
  }
  Value* denominator = is_max ? v : u.op("sqrt", v);
  if (!eps.is(0.0)) denominator = u.op("add", denominator, eps.materialize(builder));
  return {state, m, denominator, scale};
}

const Rule kAdamRule{{"lr", "beta1", "beta2", "eps", "weight_decay"}, &adam_state, &update, &adam_gradient};

}  // namespace ipu::optimizers
