// Importers of TensorFlow's updates of variables: equations of a variable, its slots, the gradient and numbers. They are computed in
// single precision and rounded once to the type of the variable.
#include <functional>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

class Update {
 public:
  explicit Update(NodeImportCall& call) : call_(call) {}

  // Operands in order, in f32.
  Term next() {
    Term value = term(call_, place_);
    ++place_;
    return value.cast(DType::kF32);
  }
  void assign(int operand, const Term& value) {
    call_.assign(operand, value.cast(call_.operand(operand)->type().dtype).value());
  }
  bool says(const char* name, bool fallback = false) {
    return call_.has(name) ? call_.boolean(name) : fallback;
  }
  // Operand i when the model states it.
  std::optional<double> stated(int i) {
    const ConstantPtr value = call_.constant(i);
    if (value == nullptr || call_.is_variable(i)) return std::nullopt;
    return reals_of(*value).at(0);
  }
  int place() const { return place_; }

 private:
  NodeImportCall& call_;
  int place_ = 0;
};

void gradient_descent(Update& u) {
  const Term var = u.next(), rate = u.next(), delta = u.next();
  u.assign(0, var - delta * rate);
}

void momentum(Update& u) {
  const Term var = u.next(), accum = u.next(), rate = u.next(), g = u.next(), share = u.next();
  const Term next = accum * share + g;
  u.assign(1, next);
  u.assign(0, u.says("use_nesterov") ? var - (g * rate + next * share * rate) : var - next * rate);
}

void keras_momentum(Update& u) {
  const Term var = u.next(), accum = u.next(), rate = u.next(), g = u.next(), share = u.next();
  const Term next = accum * share - g * rate;
  u.assign(1, next);
  u.assign(0, u.says("use_nesterov") ? var + (next * share - g * rate) : var + next);
}

// m + (x - m)(1 - share)
Term blended(const Term& m, const Term& x, const Term& share) { return m + (x - m) * (1.0 - share); }

void adam(Update& u, bool has_maximum) {
  const Term var = u.next(), m = u.next(), v = u.next();
  const std::optional<Term> largest = has_maximum ? std::optional(u.next()) : std::nullopt;
  const Term power1 = u.next(), power2 = u.next(), rate = u.next(), beta1 = u.next(), beta2 = u.next(),
             eps = u.next(), g = u.next();
  const Term alpha = rate * sqrt(1.0 - power2) / (1.0 - power1);
  const Term next_m = blended(m, g, beta1), next_v = blended(v, square(g), beta2);
  const bool is_nesterov = !has_maximum && u.says("use_nesterov");
  const Term step = is_nesterov ? next_m * beta1 + g * (1.0 - beta1) : next_m;
  const Term spread = has_maximum ? maximum(*largest, next_v) : next_v;
  u.assign(1, next_m);
  u.assign(2, next_v);
  if (has_maximum) u.assign(3, spread);
  u.assign(0, var - step * alpha / (sqrt(spread) + eps));
}

void ada_max(Update& u) {
  const Term var = u.next(), m = u.next(), v = u.next(), power1 = u.next(), rate = u.next(), beta1 = u.next(),
             beta2 = u.next(), eps = u.next(), g = u.next();
  const Term next_m = blended(m, g, beta1), next_v = maximum(v * beta2, absolute(g));
  u.assign(1, next_m);
  u.assign(2, next_v);
  u.assign(0, var - rate / (1.0 - power1) * (next_m / (next_v + eps)));
}

void rms_prop(Update& u, bool is_centred) {
  const Term var = u.next();
  const std::optional<Term> mean = is_centred ? std::optional(u.next()) : std::nullopt;
  const Term ms = u.next(), mom = u.next(), rate = u.next(), rho = u.next(), share = u.next(), eps = u.next(),
             g = u.next();
  const Term next_ms = blended(ms, square(g), rho);
  Term denominator = next_ms + eps;
  if (is_centred) {
    const Term next_mean = blended(*mean, g, rho);
    denominator = denominator - square(next_mean);
    u.assign(1, next_mean);
  }
  const Term next_mom = mom * share + g * rate * rsqrt(denominator);
  u.assign(is_centred ? 2 : 1, next_ms);
  u.assign(is_centred ? 3 : 2, next_mom);
  u.assign(0, var - next_mom);
}

void adagrad(Update& u, bool has_epsilon) {
  const Term var = u.next(), accum = u.next(), rate = u.next();
  const std::optional<Term> eps = has_epsilon ? std::optional(u.next()) : std::nullopt;
  const Term g = u.next();
  Term sum = accum;
  if (u.says("update_slots", true)) {
    sum = accum + square(g);
    u.assign(1, sum);
  }
  u.assign(0, has_epsilon ? var - g * rate / (sqrt(sum) + *eps) : var - g * rate * rsqrt(sum));
}

void ada_delta(Update& u) {
  const Term var = u.next(), accum = u.next(), changes = u.next(), rate = u.next(), rho = u.next(),
             eps = u.next(), g = u.next();
  const Term next = accum * rho + square(g) * (1.0 - rho);
  const Term change = sqrt(changes + eps) * rsqrt(next + eps) * g;
  u.assign(1, next);
  u.assign(2, changes * rho + square(change) * (1.0 - rho));
  u.assign(0, var - change * rate);
}

// x drawn towards 0 by rate * l1, then divided by 1 + rate * l2.
Term shrunk(const Term& x, const Term& rate, const Term& l1, const Term& l2) {
  return sign(x) * maximum(absolute(x) - rate * l1, 0.0) / (1.0 + l2 * rate);
}

void proximal_descent(Update& u) {
  const Term var = u.next(), rate = u.next(), l1 = u.next(), l2 = u.next(), delta = u.next();
  u.assign(0, shrunk(var - delta * rate, rate, l1, l2));
}

void proximal_adagrad(Update& u) {
  const Term var = u.next(), accum = u.next(), rate = u.next(), l1 = u.next(), l2 = u.next(), g = u.next();
  const Term sum = accum + square(g);
  const Term own = rate * rsqrt(sum);
  u.assign(1, sum);
  u.assign(0, shrunk(var - g * own, own, l1, l2));
}

void ftrl(Update& u, bool has_shrinkage) {
  const Term var = u.next(), accum = u.next(), linear = u.next(), g = u.next(), rate = u.next(),
             l1 = u.next(), l2 = u.next();
  const std::optional<Term> shrinkage = has_shrinkage ? std::optional(u.next()) : std::nullopt;
  const bool is_root = u.stated(u.place()) == -0.5;
  const Term exponent = u.next();
  const auto powered = [&](const Term& x) { return is_root ? sqrt(x) : power(x, -exponent); };
  const bool by_rate = u.says("multiply_linear_by_lr");
  const Term own = has_shrinkage ? g + *shrinkage * 2.0 * var : g;
  const Term sum = accum + square(g), root = powered(sum);
  const Term growth = root - powered(accum);
  const Term next = by_rate ? linear + (own * rate - growth * var) : linear + (own - growth / rate * var);
  const Term bound = by_rate ? l1 * rate : l1;
  const Term x = minimum(maximum(next, -bound), bound) - next;
  const Term y = by_rate ? root + l2 * 2.0 * rate : root / rate + l2 * 2.0;
  u.assign(1, sum);
  u.assign(2, next);
  u.assign(0, x / y);
}

void sign_step(Update& u, bool is_power) {
  const Term var = u.next(), m = u.next(), rate = u.next(), scale = u.next(), decay = u.next(),
             beta = u.next(), g = u.next();
  const Term next = m * beta + g * (1.0 - beta);
  const Term agreement = decay * sign(g) * sign(next);
  u.assign(1, next);
  u.assign(0, var - rate * (is_power ? exp(scale * agreement) : scale + agreement) * g);
}

struct UpdateTensorflowImporters {
  UpdateTensorflowImporters() {
    using Rule = std::function<void(Update&)>;
    const auto add = [](const char* type, Rule rule) {
      register_tensorflow_importer(type, [rule = std::move(rule)](NodeImportCall& call) {
        Update update(call);
        rule(update);
      });
    };
    add("ResourceApplyGradientDescent", gradient_descent);
    add("ResourceApplyMomentum", momentum);
    add("ResourceApplyKerasMomentum", keras_momentum);
    add("ResourceApplyAdam", [](Update& u) { adam(u, false); });
    add("ResourceApplyAdamWithAmsgrad", [](Update& u) { adam(u, true); });
    add("ResourceApplyAdaMax", ada_max);
    add("ResourceApplyRMSProp", [](Update& u) { rms_prop(u, false); });
    add("ResourceApplyCenteredRMSProp", [](Update& u) { rms_prop(u, true); });
    add("ResourceApplyAdagrad", [](Update& u) { adagrad(u, false); });
    add("ResourceApplyAdagradV2", [](Update& u) { adagrad(u, true); });
    add("ResourceApplyAdadelta", ada_delta);
    add("ResourceApplyProximalGradientDescent", proximal_descent);
    add("ResourceApplyProximalAdagrad", proximal_adagrad);
    add("ResourceApplyFtrl", [](Update& u) { ftrl(u, false); });
    add("ResourceApplyFtrlV2", [](Update& u) { ftrl(u, true); });
    add("ResourceApplyAddSign", [](Update& u) { sign_step(u, false); });
    add("ResourceApplyPowerSign", [](Update& u) { sign_step(u, true); });
  }
};
const UpdateTensorflowImporters update_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
