// RMSprop, plain and centred, as torch and as TensorFlow have it (docs/optimizers.md has the equations). The
// variance of the centred kind is a difference of two means; below 0 it can only be a rounding error, so it
// is held at 0.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

bool is_centred(const Spec& spec) { return spec.kind == Kind::kRmsPropCentred; }
std::vector<StateTensor> state(const Spec& spec, int group) {
  const StateTypes types = state_types(spec, group);
  std::vector<StateTensor> state{{"Accl1", types.first, spec.tf_variant ? 1.0 : 0.0}};
  if (is_centred(spec)) state.push_back({"Accl2", types.second});
  if (has_momentum(spec, group)) state.push_back({"Accl3", types.third});
  return state;
}

UpdateResult update(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  Value* gradient = u.decays_gradient() ? u.gradient_with_decay(weight) : u.gradient();
  Value* square =
      u.blend(u.state(0), u.hyper("alpha"), u.op("mul", gradient, gradient), u.hyper.rest("alpha"));
  std::vector<Value*> state{square};
  Value* variance = square;
  if (is_centred(u.spec)) {
    Value* mean = u.blend(u.state(1), u.hyper("alpha"), gradient, u.hyper.rest("alpha"));
    state.push_back(mean);
    variance =
        u.op("maximum", u.op("sub", square, u.op("mul", mean, mean)), builder.scalar(DType::kF32, 0.0));
  }
  Value* eps = u.hyper("eps").materialize(builder);
  Value* denominator =
      u.spec.tf_variant ? u.op("sqrt", u.op("add", variance, eps)) : u.op("add", u.op("sqrt", variance), eps);
  const Scalar lr = u.hyper("lr");
  Value* change;
  if (!has_momentum(u.spec, u.group)) {
    change = u.op("div", multiply(builder, gradient, lr), denominator);
  } else {
    Value* kept = multiply(builder, u.state(state.size()), u.hyper("momentum"));
    // TensorFlow's buffer holds changes of the weight, torch's holds directions.
    Value* scaled = u.spec.tf_variant ? multiply(builder, gradient, lr) : gradient;
    Value* buffer = u.op("add", kept, u.op("div", scaled, denominator));
    state.push_back(buffer);
    change = u.spec.tf_variant ? buffer : multiply(builder, buffer, lr);
  }
  // TensorFlow's buffer has the rate in it, and then so has the decay.
  const Scalar decay = u.hyper("weight_decay");
  if (!u.decays_gradient() && !decay.is(0.0)) {
    const bool has_rate = u.spec.tf_variant && has_momentum(u.spec, u.group);
    change = u.op("add", change, multiply(builder, weight, has_rate ? decay : lr * decay));
  }
  return u.result(u.op("sub", weight, change), state);
}

}  // namespace

const Rule kRmsPropRule{{"lr", "alpha", "eps", "weight_decay", "momentum"}, &state, &update};

}  // namespace ipu::optimizers
