// RMSprop, plain and centred, as torch and as TensorFlow have it (docs/optimizers.md has the equations). The
// variance of the centred kind is a difference of two means; below 0 it can only be a rounding error, so it
// is held at 0.
#include "ops/definition/build.h"
#include "optimizers/rule.h"

namespace ipu::optimizers {
namespace {

using ir::Value;

bool is_centred(const Spec& spec) { return spec.kind == Kind::kRmsPropCentred; }
bool has_momentum(const Spec& spec, int group) { return !is_fixed(spec, group, "momentum", 0.0); }

std::vector<StateTensor> state(const Spec& spec, int group) {
  std::vector<StateTensor> state{{"Accl1", spec.velocity_dtype, spec.tf_variant ? 1.0 : 0.0}};
  if (is_centred(spec)) state.push_back({"Accl2", spec.second_dtype});
  if (has_momentum(spec, group)) state.push_back({"Accl3", DType::kF32});
  return state;
}

UpdateResult update(const Update& u) {
  ir::Builder& builder = u.builder;
  Value* weight = u.weight();
  Value* gradient = u.gradient_with_decay(weight);
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
  return u.result(u.op("sub", weight, change), state);
}

}  // namespace

const Rule kRmsPropRule{{"lr", "alpha", "eps", "weight_decay", "momentum"}, &state, &update};

}  // namespace ipu::optimizers
