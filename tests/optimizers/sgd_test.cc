// Updates built as IR and run by the interpreter, against the documented equations written out in C++.
#include <gtest/gtest.h>

#include <random>

#include "ir/builder.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "optimizers/optimizer.h"
#include "support/error.h"

namespace ipu::optimizers {
namespace {

using ir::Value;
using Numbers = std::vector<double>;

constexpr int kSize = 5;

struct Case {
  Kind kind = Kind::kSgdSeparate;
  double lr = 0.1, momentum = 0.0, dampening = 0.0, weight_decay = 0.0, velocity_scaling = 1.0,
         loss_scaling = 1.0;
  bool nesterov = false, streamed = false, mean = true;
  int accumulation = 1;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "kind " << static_cast<int>(c.kind) << " momentum " << c.momentum << " dampening "
             << c.dampening << " decay " << c.weight_decay << " vs " << c.velocity_scaling << " ls "
             << c.loss_scaling << " nesterov " << c.nesterov << " streamed " << c.streamed << " mean "
             << c.mean << " GA " << c.accumulation;
}

Spec spec_of(const Case& c) {
  Spec spec;
  spec.kind = c.kind;
  spec.accumulation = c.accumulation;
  spec.loss_scaling = {c.loss_scaling, !c.streamed};
  Group group;
  group.nesterov = c.nesterov;
  auto hyper = [&](double value, bool may_stream) {
    return HyperParameter{value, !(c.streamed && may_stream)};
  };
  group.hyper = {{"lr", hyper(c.lr, true)},
                 {"momentum", hyper(c.momentum, c.momentum != 0)},
                 {"dampening", hyper(c.dampening, c.dampening != 0)},
                 {"weight_decay", hyper(c.weight_decay, c.weight_decay != 0)},
                 {"velocity_scaling", hyper(c.velocity_scaling, true)}};
  spec.groups = {group};
  spec.group_of = {{"w", 0}};
  return spec;
}

// The equations of the contract, in f64. Gradients arrive scaled by the loss scaling.
struct Reference {
  explicit Reference(const Case& c) : c(c), v(kSize, 0.0), combined(kSize, 0.0) {}
  const Case& c;
  Numbers v, combined;
  bool started = false;

  void update(Numbers& w, const std::vector<Numbers>& scaled_gradients) {
    const double af = c.mean ? c.accumulation : 1;
    const bool plain = c.momentum == 0 && c.accumulation == 1;
    for (int i = 0; i < kSize; ++i) {
      double a = 0.0;
      for (const Numbers& g : scaled_gradients) a += g[i];
      if (plain) {
        const double g = a / c.loss_scaling;
        w[i] = w[i] * (1 - c.lr * (1 - c.dampening) * c.weight_decay) - c.lr * (1 - c.dampening) * g;
      } else if (c.kind == Kind::kSgdSeparate) {
        const double g = a / (c.loss_scaling * af);
        v[i] = c.momentum * v[i] + (1 - c.dampening) * (g + c.weight_decay * w[i]);
        w[i] -= c.nesterov ? c.lr * (g + c.weight_decay * w[i] + c.momentum * v[i]) : c.lr * v[i];
      } else {
        const double vs = c.velocity_scaling;
        if (!started) combined[i] = (1 - c.dampening) * c.weight_decay * vs * w[i];
        for (const Numbers& g : scaled_gradients)
          combined[i] += (1 - c.dampening) * vs / (c.loss_scaling * af) * g[i];
        w[i] -= c.lr / vs * combined[i];
        combined[i] = combined[i] * c.momentum + (1 - c.dampening) * c.weight_decay * vs * w[i];
      }
    }
    started = true;
  }
};

// One update as a graph: (weight, state..., streamed..., gradients...) → (weight, state...).
struct Update {
  ir::Module module;
  ir::Graph* graph = nullptr;
  std::vector<StateTensor> state;
  std::vector<std::string> streamed;

  explicit Update(const Spec& spec, const Case& c) {
    graph = module.add_graph("update");
    const ir::Type type{DType::kF32, {kSize}};
    Value* weight = graph->add_input(type, "w");
    state = state_of(spec, 0);
    std::vector<Value*> states, gradients;
    for (const StateTensor& s : state)
      states.push_back(graph->add_input({s.dtype, s.is_scalar ? Shape{} : type.shape}, s.suffix));
    std::map<std::string, Value*> values;
    for (const auto& [name, hyper] : spec.groups[0].hyper)
      if (!hyper.constant) values[name] = nullptr;
    if (!spec.loss_scaling.constant) values["loss_scaling"] = nullptr;
    for (auto& [name, value] : values) {
      value = graph->add_input({DType::kF32, {}}, name);
      streamed.push_back(name);
    }
    for (int i = 0; i < c.accumulation; ++i) gradients.push_back(graph->add_input(type, "g"));
    ir::Builder builder(graph);
    const double divisor = c.mean ? c.accumulation : 1;
    Value* sum = gradients[0];
    if (c.accumulation > 1 || accumulates_in_state(spec, 0)) {
      sum = begin_accumulation(builder, spec, 0, {weight, states, values});
      double number = 0;
      for (Value* gradient : gradients)
        sum = accumulate(builder, spec, 0, sum, gradient, values, divisor,
                         builder.scalar(DType::kI32, number++));
    }
    const UpdateResult result = build_update(builder, spec, 0, {weight, sum, states, values}, divisor);
    graph->append_output(result.weight);
    EXPECT_EQ(result.state.size(), state.size());
    for (Value* value : result.state) graph->append_output(value);
  }
};

double value_of(const Case& c, const std::string& name) {
  const std::map<std::string, double> values = {{"lr", c.lr},
                                                {"momentum", c.momentum},
                                                {"dampening", c.dampening},
                                                {"weight_decay", c.weight_decay},
                                                {"velocity_scaling", c.velocity_scaling},
                                                {"loss_scaling", c.loss_scaling}};
  return values.at(name);
}

void check(const Case& c, bool running_mean = false) {
  SCOPED_TRACE(testing::Message() << c);
  Spec spec = spec_of(c);
  spec.running_mean = running_mean;
  Update update(spec, c);
  ops::verify(update.module, ir::Form::kFunctional);
  ops::Interpreter interpreter(update.module, ops::Arithmetic::kF64);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Numbers weight(kSize);
  for (double& w : weight) w = uniform(random);
  std::vector<ops::ReferenceTensor> held;
  held.push_back({{DType::kF32, {kSize}}, weight});
  for (const StateTensor& state : update.state) {
    held.push_back(ops::ReferenceTensor::zeros({state.dtype, state.is_scalar ? Shape{} : Shape{kSize}}));
    for (double& value : held.back().values) value = state.initial;
  }
  Reference reference(c);
  for (int step = 0; step < 6; ++step) {
    std::vector<Numbers> gradients;
    std::vector<ops::ReferenceTensor> inputs = held;
    for (const std::string& name : update.streamed)
      inputs.push_back({{DType::kF32, {}}, {value_of(c, name)}});
    for (int i = 0; i < c.accumulation; ++i) {
      Numbers gradient(kSize);
      for (double& g : gradient) g = uniform(random) * c.loss_scaling;
      gradients.push_back(gradient);
      inputs.push_back({{DType::kF32, {kSize}}, gradient});
    }
    held = interpreter.run(*update.graph, inputs);
    reference.update(weight, gradients);
    for (int i = 0; i < kSize; ++i) ASSERT_NEAR(held[0].values[i], weight[i], 1e-6) << "step " << step;
  }
}

TEST(Sgd, EveryVariantFollowsItsEquations) {
  for (Kind kind : {Kind::kSgdSeparate, Kind::kSgdCombined})
    for (double momentum : {0.0, 0.9})
      for (double dampening : {0.0, 0.5})
        for (double decay : {0.0, 0.01})
          for (int accumulation : {1, 3})
            for (bool streamed : {false, true})
              for (bool mean : {true, false}) {
                Case c{kind, 0.1, momentum, dampening, decay};
                c.accumulation = accumulation;
                c.streamed = streamed;
                c.mean = mean;
                c.loss_scaling = 8.0;
                if (kind == Kind::kSgdCombined) c.velocity_scaling = 4.0;
                check(c);
              }
}

TEST(Sgd, NesterovLooksAhead) {
  for (double decay : {0.0, 0.1})
    for (int accumulation : {1, 3}) {
      Case c{Kind::kSgdSeparate, 0.05, 0.8, 0.0, decay};
      c.nesterov = true;
      c.accumulation = accumulation;
      check(c);
    }
}

TEST(Sgd, RunningMeanGivesTheSameMean) {
  Case c{Kind::kSgdSeparate, 0.1, 0.9};
  c.accumulation = 4;
  c.loss_scaling = 8.0;
  check(c, true);
}

TEST(Sgd, NoStateWithoutMomentumAndAccumulation) {
  for (Kind kind : {Kind::kSgdSeparate, Kind::kSgdCombined}) {
    Case c{kind};
    c.weight_decay = 0.1;
    EXPECT_TRUE(state_of(spec_of(c), 0).empty());
  }
  Case c{Kind::kSgdSeparate};
  c.momentum = 0.9;
  ASSERT_EQ(state_of(spec_of(c), 0).size(), 1u);
  EXPECT_EQ(state_name(state_of(spec_of(c), 0)[0], "fc.weight"), "Accl1___fc.weight");
  c.kind = Kind::kSgdCombined;
  EXPECT_EQ(state_name(state_of(spec_of(c), 0)[0], "fc.weight"), "Accl___fc.weight");
}

TEST(Sgd, PlainUpdateIsTwoOpsBesideConstants) {
  Case c{Kind::kSgdSeparate};
  Update update(spec_of(c), c);
  int ops = 0;
  for (const auto& op : update.graph->ops()) ops += !op->is("constant");
  EXPECT_EQ(ops, 2);  // mul, sub
}

TEST(Sgd, HalfWeightsAreUpdatedInSinglePrecision) {
  Case c{Kind::kSgdSeparate, 0.1, 0.9};
  Spec spec = spec_of(c);
  spec.velocity_dtype = DType::kF16;
  ir::Module module;
  ir::Graph* graph = module.add_graph("update");
  const ir::Type half{DType::kF16, {kSize}};
  Value* weight = graph->add_input(half, "w");
  Value* gradient = graph->add_input(half, "g");
  Value* velocity = graph->add_input(half, "v");
  ir::Builder builder(graph);
  const UpdateResult result = build_update(builder, spec, 0, {weight, gradient, {velocity}, {}}, 1.0);
  EXPECT_EQ(result.weight->type(), half);
  EXPECT_EQ(result.state[0]->type(), half);
  for (const auto& op : graph->ops()) {
    if (op->is("cast")) continue;
    EXPECT_EQ(op->result()->type().dtype, DType::kF32) << op->kind();
  }
}

void expect_refused(const Spec& compiled, const Spec& next, const std::string& part) {
  try {
    check_compatible(compiled, next);
    FAIL() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOptimizer);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(SgdCompatibility, VariableValuesMayChangeAndNothingElse) {
  Case c{Kind::kSgdSeparate, 0.1, 0.9};
  const Spec constant = spec_of(c);
  Spec next = constant;
  next.groups[0].hyper["lr"].value = 0.05;
  expect_refused(constant, next, "lr of group 0 was compiled as the constant 0.1 and is now 0.05");
  c.streamed = true;
  const Spec streamed = spec_of(c);
  next = streamed;
  next.groups[0].hyper["lr"].value = 0.05;
  next.loss_scaling.value = 2.0;
  EXPECT_NO_THROW(check_compatible(streamed, next));
  next = streamed;
  next.kind = Kind::kSgdCombined;
  expect_refused(streamed, next, "optimizer kind changed");
  next = streamed;
  next.groups.push_back(next.groups[0]);
  expect_refused(streamed, next, "optimizer groups changed");
  next = streamed;
  next.group_of["v"] = 0;
  expect_refused(streamed, next, "parameter 'v' was compiled in no group");
  next = streamed;
  next.groups[0].nesterov = true;
  expect_refused(streamed, next, "nesterov");
  next = streamed;
  next.accum_dtype = DType::kF16;
  expect_refused(streamed, next, "accum_type");
}

TEST(SgdCompatibility, IncompleteSpecsAreRefused) {
  Spec spec = spec_of({});
  spec.group_of["v"] = 3;
  EXPECT_THROW(check_spec(spec), Error);
  spec = spec_of({});
  spec.groups[0].hyper.erase("lr");
  EXPECT_THROW(check_spec(spec), Error);
  spec = spec_of({});
  spec.loss_scaling.value = 0.0;
  EXPECT_THROW(check_spec(spec), Error);
}

}  // namespace
}  // namespace ipu::optimizers
