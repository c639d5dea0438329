// Runs an update rule as IR in the interpreter (f64), update by update, for comparison with equations written
// out in C++. One parameter "w" of kSize elements in group 0.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "ir/builder.h"
#include "ops/definition/op_def.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "optimizers/optimizer.h"

namespace ipu::optimizers::testing {

using Numbers = std::vector<double>;
inline constexpr int kSize = 5;

class RuleRun {
 public:
  explicit RuleRun(const Spec& spec, bool mean = true) : spec_(spec) {
    ir::Graph* graph = module_.add_graph("update");
    const ir::Type type{DType::kF32, {kSize}};
    ir::Value* weight = graph->add_input(type, "w");
    state_ = state_of(spec, 0);
    std::vector<ir::Value*> states;
    for (const StateTensor& s : state_)
      states.push_back(graph->add_input({s.dtype, s.is_scalar ? Shape{} : type.shape}, s.suffix));
    std::map<std::string, ir::Value*> values;
    for (const auto& [name, value] : streamed_hypers(spec, 0)) values[name] = nullptr;
    if (!spec.loss_scaling.constant) values["loss_scaling"] = nullptr;
    for (auto& [name, value] : values) {
      value = graph->add_input({DType::kF32, {}}, name);
      streamed_.push_back(name);
    }
    std::vector<ir::Value*> gradients;
    for (int64_t i = 0; i < spec.accumulation; ++i) gradients.push_back(graph->add_input(type, "g"));
    ir::Builder builder(graph);
    const double divisor = mean ? static_cast<double>(spec.accumulation) : 1;
    ir::Value* sum = gradients[0];
    if (spec.accumulation > 1 || accumulates_in_state(spec, 0)) {
      sum = begin_accumulation(builder, spec, 0, {weight, states, values});
      double number = 0;
      for (ir::Value* gradient : gradients)
        sum = accumulate(builder, spec, 0, sum, gradient, values, divisor,
                         builder.scalar(DType::kI32, number++));
    }
    ir::Value* factor =
        spec.clips() ? gradient_factor(builder, spec, squared_norm(builder, sum), values, divisor) : nullptr;
    const UpdateResult result =
        build_update(builder, spec, 0, {weight, sum, states, values, factor}, divisor);
    graph->append_output(result.weight);
    for (ir::Value* value : result.state) graph->append_output(value);
    ops::verify(module_, ir::Form::kFunctional);

    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(-1, 1);
    Numbers start(kSize);
    for (double& w : start) w = uniform(random);
    held_.push_back({type, start});
    for (const StateTensor& s : state_) {
      held_.push_back(ops::ReferenceTensor::zeros({s.dtype, s.is_scalar ? Shape{} : Shape{kSize}}));
      for (double& value : held_.back().values) value = s.initial;
    }
  }

  // One update; gradients with loss scaling in them, one per micro-batch.
  void update(const std::vector<Numbers>& gradients) {
    std::vector<ops::ReferenceTensor> inputs = held_;
    const std::map<std::string, double> hypers = streamed_hypers(spec_, 0);
    for (const std::string& name : streamed_)
      inputs.push_back(
          {{DType::kF32, {}}, {name == "loss_scaling" ? spec_.loss_scaling.value : hypers.at(name)}});
    for (const Numbers& gradient : gradients) inputs.push_back({{DType::kF32, {kSize}}, gradient});
    ops::Interpreter interpreter(module_, ops::Arithmetic::kF64);
    held_ = interpreter.run(*module_.find_graph("update"), inputs);
  }
  void set_spec(const Spec& next) { spec_ = next; }  // values of streamed hyper-parameters

  const Numbers& weight() const { return held_[0].values; }
  const Numbers& state(const std::string& suffix) const {
    for (size_t i = 0; i < state_.size(); ++i)
      if (state_[i].suffix == suffix) return held_[i + 1].values;
    throw std::out_of_range("no state " + suffix);
  }
  std::vector<std::string> state_suffixes() const {
    std::vector<std::string> names;
    for (const StateTensor& s : state_) names.push_back(s.suffix);
    return names;
  }
  const ir::Graph& graph() { return *module_.find_graph("update"); }

 private:
  Spec spec_;
  ir::Module module_;
  std::vector<StateTensor> state_;
  std::vector<std::string> streamed_;
  std::vector<ops::ReferenceTensor> held_;
};

// Gradients of one update, scaled; `mean` is what the optimizer should see.
struct Gradients {
  std::vector<Numbers> scaled;
  Numbers mean;
};
inline Gradients random_gradients(std::mt19937& random, const Spec& spec, bool mean = true) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  Gradients result;
  result.mean.assign(kSize, 0.0);
  for (int64_t i = 0; i < spec.accumulation; ++i) {
    Numbers gradient(kSize);
    for (int k = 0; k < kSize; ++k) {
      gradient[k] = uniform(random);
      result.mean[k] += gradient[k] / (mean ? static_cast<double>(spec.accumulation) : 1.0);
      gradient[k] *= spec.loss_scaling.value;
    }
    result.scaled.push_back(gradient);
  }
  return result;
}

inline double norm(const Numbers& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

inline void expect_near(const Numbers& ours, const Numbers& expected, const std::string& what,
                        double tolerance = 1e-6) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " " << i;
}

}  // namespace ipu::optimizers::testing
