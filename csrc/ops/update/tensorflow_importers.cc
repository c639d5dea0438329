// Importers of TensorFlow's updates of variables: equations of a variable, its slots, the gradient and numbers. They are computed in
// single precision and rounded once to the type of the variable.
#include <fmt/core.h>

#include <functional>

#include "ops/control/body_calls.h"
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

class Update {
 public:
  virtual ~Update() = default;

  // Operands in order, in f32.
  Term next() { return Term(call_, value(place_++)).cast(DType::kF32); }
  void assign(int operand, const Term& value) {
    set(operand, value.cast(this->value(operand)->type().dtype).value());
  }
  bool says(const char* name, bool fallback = false) {
    return call_.has(name) ? call_.boolean(name) : fallback;
  }
  // Operand i when the model states it.
  std::optional<double> stated(int i) {
    i = operand_of(i);
    const ConstantPtr value = call_.constant(i);
    if (value == nullptr || call_.is_variable(i)) return std::nullopt;
    return reals_of(*value).at(0);
  }
  int place() const { return place_; }

 protected:
  explicit Update(NodeImportCall& call) : call_(call) {}
  virtual ir::Value* value(int i) = 0;
  virtual void set(int i, ir::Value* value) = 0;
  virtual int operand_of(int i) const { return i; }
  NodeImportCall& call_;

 private:
  int place_ = 0;
};

class DenseUpdate final : public Update {
 public:
  explicit DenseUpdate(NodeImportCall& call) : Update(call) {}

 private:
  ir::Value* value(int i) override { return call_.operand(i); }
  void set(int i, ir::Value* value) override { call_.assign(i, value); }
};

// The update of one row. The operands are those of the dense update with the numbers of the rows, operand `indices`, among them.
class RowUpdate final : public Update {
 public:
  RowUpdate(NodeImportCall& call, int indices, GraphValues values)
      : Update(call), indices_(indices), values_(std::move(values)), rows_(values_.size()) {}
  ir::Value* row(size_t i) const { return rows_[i] == nullptr ? values_[i] : rows_[i]; }

 private:
  ir::Value* value(int i) override {
    const auto at = static_cast<size_t>(i);
    return at < values_.size() ? values_[at] : call_.operand(operand_of(i));  // says that it is missing
  }
  void set(int i, ir::Value* value) override { rows_.at(static_cast<size_t>(i)) = value; }
  int operand_of(int i) const override { return i < indices_ ? i : i + 1; }
  int indices_;
  GraphValues values_, rows_;
};

using Rule = std::function<void(Update&)>;

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

// Row after row of the gradient, so that a row that is named twice is updated twice, as by TensorFlow. The first `variables`
// operands are variables, that before `indices` is the gradient.
void import_sparse(NodeImportCall& call, int variables, int indices, const Rule& rule) {
  GraphValues carried, stays;
  for (int i = 0; i < call.operand_count(); ++i) (i < variables ? carried : stays).push_back(call.operand(i));
  ir::Value* numbers = call.operand(indices);
  const int64_t rows = numbers->type().elements();
  numbers = reshaped(call, call.cast(numbers, DType::kI32), {rows});
  const size_t at = static_cast<size_t>(indices - variables);
  stays[at] = numbers;
  if (stays[at - 1]->type().shape.empty() || stays[at - 1]->type().shape[0] != rows)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has a gradient {} for {} rows.", call.described(),
                            to_string(stays[at - 1]->type()), rows));
  if (rows == 0) return;
  const Attributes first{{"dim", int64_t{0}}};
  const GraphValues next = repeated(
      call, "sparse_update", rows, carried, stays,
      [&](ir::Value* index, const GraphValues& values, const GraphValues& given) {
        ir::Value* place = reshaped(call, index, {1});
        ir::Value* number = call.op("index_select", {given[at], place}, first);
        GraphValues operands;
        for (ir::Value* value : values) operands.push_back(call.op("index_select", {value, number}, first));
        for (size_t i = 0; i < given.size(); ++i) {
          if (i == at) continue;
          operands.push_back(i + 1 == at ? call.op("index_select", {given[i], place}, first) : given[i]);
        }
        RowUpdate update(call, indices, operands);
        rule(update);
        GraphValues made;
        for (size_t i = 0; i < values.size(); ++i)
          made.push_back(call.op("index_copy", {values[i], number, update.row(i)}, first));
        return made;
      });
  for (int i = 0; i < variables; ++i) call.assign(i, next[static_cast<size_t>(i)]);
}

struct UpdateTensorflowImporters {
  UpdateTensorflowImporters() {
    const auto add = [](const char* type, Rule rule) {
      register_tensorflow_importer(type, [rule = std::move(rule)](NodeImportCall& call) {
        DenseUpdate update(call);
        rule(update);
      });
    };
    const auto add_sparse = [](const char* type, int variables, int indices, Rule rule) {
      register_tensorflow_importer(
          type, [=](NodeImportCall& call) { import_sparse(call, variables, indices, rule); });
    };
    add_sparse("ResourceSparseApplyMomentum", 2, 4, momentum);
    add_sparse("ResourceSparseApplyKerasMomentum", 2, 4, keras_momentum);
    add_sparse("ResourceSparseApplyAdagrad", 2, 4, [](Update& u) { adagrad(u, false); });
    add_sparse("ResourceSparseApplyAdagradV2", 2, 5, [](Update& u) { adagrad(u, true); });
    add_sparse("ResourceSparseApplyAdadelta", 3, 7, ada_delta);
    add_sparse("ResourceSparseApplyRMSProp", 3, 8, [](Update& u) { rms_prop(u, false); });
    add_sparse("ResourceSparseApplyCenteredRMSProp", 4, 9, [](Update& u) { rms_prop(u, true); });
    add_sparse("ResourceSparseApplyProximalGradientDescent", 1, 5, proximal_descent);
    add_sparse("ResourceSparseApplyProximalAdagrad", 2, 6, proximal_adagrad);
    add_sparse("ResourceSparseApplyFtrl", 3, 4, [](Update& u) { ftrl(u, false); });
    add_sparse("ResourceSparseApplyFtrlV2", 3, 4, [](Update& u) { ftrl(u, true); });
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
