// Adam, AdamW and the moments that LAMB shares (docs/optimizers.md has the equations). Bias correction is
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
  const bool decoupled = u.spec.kind != Kind::kAdam;
  const Moments moments = adam_moments(u, decoupled ? u.gradient() : u.gradient_with_decay(weight));
  const Scalar lr = u.hyper("lr");
  Value* change = u.op("div", multiply(builder, moments.m, moments.scale * lr), moments.denominator);
  const Scalar decay = u.hyper("weight_decay");
  if (decoupled && !decay.is(0.0)) change = u.op("add", change, multiply(builder, weight, lr * decay));
  return u.result(u.op("sub", weight, change), moments.state);
}

}  // namespace

std::vector<StateTensor> adam_state(const Spec& spec, int) {
  std::vector<StateTensor> state{{"Accl1", spec.velocity_dtype}, {"Accl2", spec.second_dtype}};
  if (corrects_bias(spec.kind)) state.push_back({"Step", DType::kF32, 0.0, true});
  return state;
}

Moments adam_moments(const Update& u, Value* gradient) {
  ir::Builder& builder = u.builder;
  Value* m = u.blend(u.state(0), u.hyper("beta1"), gradient, u.hyper.rest("beta1"));
  Value* square = u.op("mul", gradient, gradient);
  Value* v = u.blend(u.state(1), u.hyper("beta2"), square, u.hyper.rest("beta2"));
  std::vector<Value*> state{m, v};
  Scalar scale = 1.0, eps = u.hyper("eps");
  if (corrects_bias(u.spec.kind)) {
    Value* step = u.op("add", u.state(2), builder.scalar(DType::kF32, 1.0));
    state.push_back(step);
    const Scalar root = apply(builder, "sqrt", std::sqrt, bias_correction(u, step, "beta2"));
    scale = root / bias_correction(u, step, "beta1");
    eps = eps * root;
  }
  Value* denominator = u.op("sqrt", v);
  if (!eps.is(0.0)) denominator = u.op("add", denominator, eps.materialize(builder));
  return {state, m, denominator, scale};
}

const Rule kAdamRule{{"lr", "beta1", "beta2", "eps", "weight_decay"}, &adam_state, &update};

}  // namespace ipu::optimizers
