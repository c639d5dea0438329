// AdaGrad and AdaDelta (docs/optimizers.md has the equations): RMSprop's relatives that sum all squares, and that
// take the size of the step from the steps so far.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

Value* gradient_of(const Update& u, Value* weight) {
  return u.decays_gradient() ? u.gradient_with_decay(weight) : u.gradient();
}

std::vector<StateTensor> with_momentum(std::vector<StateTensor> state, const Spec& spec, int group) {
  if (has_momentum(spec, group)) state.push_back({"Accl3", state_types(spec, group).third});
  return state;
}

// Momentum over the directions, then rate and decay of the weight. `state` is what comes before the momentum.
UpdateResult finish(const Update& u, Value* weight, Value* direction, std::vector<Value*> state) {
  ir::Builder& builder = u.builder;
  if (has_momentum(u.spec, u.group)) {
    direction = u.op("add", multiply(builder, u.state(state.size()), u.hyper("momentum")), direction);
    state.push_back(direction);
  }
  const Scalar lr = u.hyper("lr");
  Value* change = multiply(builder, direction, lr);
  const Scalar decay = u.hyper("weight_decay");
  if (!u.decays_gradient() && !decay.is(0.0))
    change = u.op("add", change, multiply(builder, weight, lr * decay));
  return u.result(u.op("sub", weight, change), state);
}

std::vector<StateTensor> adagrad_state(const Spec& spec, int group) {
  return with_momentum({{"Accl1", state_types(spec, group).first}}, spec, group);
}

UpdateResult adagrad(const Update& u) {
  Value* weight = u.weight();
  Value* gradient = gradient_of(u, weight);
  Value* squares = u.op("add", u.state(0), u.op("mul", gradient, gradient));
  Value* denominator = u.op("add", u.op("sqrt", squares), u.hyper("eps").materialize(u.builder));
  return finish(u, weight, u.op("div", gradient, denominator), {squares});
}

std::vector<StateTensor> adadelta_state(const Spec& spec, int group) {
  const StateTypes types = state_types(spec, group);
  return with_momentum({{"Accl1", types.first}, {"Accl2", types.second}}, spec, group);
}

UpdateResult adadelta(const Update& u) {
  Value* weight = u.weight();
  Value* gradient = gradient_of(u, weight);
  Value* eps = u.hyper("eps").materialize(u.builder);
  const auto root = [&](Value* mean) { return u.op("sqrt", u.op("add", mean, eps)); };
  const auto blend_square = [&](Value* mean, Value* value) {
    return u.blend(mean, u.hyper("alpha"), u.op("mul", value, value), u.hyper.rest("alpha"));
  };
  Value* squares = blend_square(u.state(0), gradient);
  Value* steps = u.state(1);
  Value* direction = u.op("div", u.op("mul", gradient, root(steps)), root(squares));
  return finish(u, weight, direction, {squares, blend_square(steps, direction)});
}

}  // namespace

const Rule kAdaGradRule{{"lr", "eps", "weight_decay", "momentum"}, &adagrad_state, &adagrad};
const Rule kAdaDeltaRule{{"lr", "alpha", "eps", "weight_decay", "momentum"}, &adadelta_state, &adadelta};

}  // namespace ipu::optimizers
