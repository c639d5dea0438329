// Whole steps run by the interpreter from entry point main, against the same training written out in C++.
#include "frontends/common/step_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/builder.h"
#include "ir/structure.h"
#include "ir/text/text.h"
#include "ops/definition/build.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "passes/pass.h"
#include "support/error.h"

namespace ipu::frontends {
namespace {

using ir::Value;
using Numbers = std::vector<double>;

constexpr int kRows = 2, kIn = 3, kHidden = 4, kOut = 2;

// linear, relu, linear, mean square error; a buffer that averages the inputs; one parameter that is not
// trained.
struct Network {
  ir::Module module;
  ForwardGraph forward;
  Value* loss = nullptr;

  explicit Network(const std::vector<std::string>& blocks, ir::OutputMode mode = ir::OutputMode::kAll,
                   int64_t period = 1) {
    ir::Graph* graph = module.add_graph("forward");
    forward.graph = graph;
    auto input = [&](const std::string& name, Shape shape, bool variable, bool trainable) {
      forward.inputs.push_back(
          {variable ? ForwardGraph::Input::Kind::kVariable : ForwardGraph::Input::Kind::kHost, name,
           DType::kF32, trainable, variable && name != "seen"});
      return graph->add_input({DType::kF32, std::move(shape)}, name);
    };
    Value* x = input("x", {kRows, kIn}, false, false);
    Value* y = input("y", {kRows, kOut}, false, false);
    Value* w1 = input("w1", {kHidden, kIn}, true, true);
    Value* b1 = input("b1", {kHidden}, true, true);
    Value* w2 = input("w2", {kOut, kHidden}, true, true);
    Value* b2 = input("b2", {kOut}, true, false);
    Value* seen = input("seen", {kIn}, true, false);
    ir::Builder builder(graph);
    auto enter = [&](size_t part) { builder.settings.block = blocks[std::min(part, blocks.size() - 1)]; };
    enter(0);
    Value* mean =
        ops::build(builder, "reduce_mean", {x}, {{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}});
    Value* half = builder.scalar(DType::kF32, 0.5);
    Value* next_seen = ops::build(builder, "add", {ops::build(builder, "mul", {seen, half}), mean});
    Value* h = ops::build(builder, "linear", {x, w1, b1});
    enter(1);
    h = ops::build(builder, "relu", {h});
    enter(2);
    Value* o = ops::build(builder, "linear", {h, w2, b2});
    enter(3);
    Value* d = ops::build(builder, "sub", {o, y});
    loss = ops::build(builder, "reduce_mean", {ops::build(builder, "mul", {d, d})},
                      {{"dims", std::vector<int64_t>{0, 1}}, {"keep_dims", false}});
    auto output = [&](const std::string& name, Value* value, bool state) {
      graph->append_output(value);
      forward.outputs.push_back(
          {state ? ForwardGraph::Output::Kind::kState : ForwardGraph::Output::Kind::kHost, name, DType::kF32,
           mode, period});
    };
    output("out", o, false);
    output("loss", loss, false);
    output("seen", next_seen, true);
  }
};

struct Parameters {
  Numbers w1, b1, w2, b2, seen;
};

// The same training as plain loops: SGD with momentum, mean over the accumulation.
struct Reference {
  Parameters p;
  Numbers vw1, vb1, vw2;
  double lr = 0.1, momentum = 0.9;
  std::vector<double> losses;

  explicit Reference(Parameters start)
      : p(std::move(start)), vw1(p.w1.size()), vb1(p.b1.size()), vw2(p.w2.size()) {}

  void forward(const Numbers& x, const Numbers& y, Numbers& h, Numbers& o) {
    h.assign(kRows * kHidden, 0.0);
    o.assign(kRows * kOut, 0.0);
    double loss = 0.0;
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kHidden; ++j) {
        double sum = p.b1[j];
        for (int k = 0; k < kIn; ++k) sum += x[r * kIn + k] * p.w1[j * kIn + k];
        h[r * kHidden + j] = std::max(sum, 0.0);
      }
      for (int j = 0; j < kOut; ++j) {
        double sum = p.b2[j];
        for (int k = 0; k < kHidden; ++k) sum += h[r * kHidden + k] * p.w2[j * kHidden + k];
        o[r * kOut + j] = sum;
        loss += (sum - y[r * kOut + j]) * (sum - y[r * kOut + j]) / (kRows * kOut);
      }
    }
    for (int k = 0; k < kIn; ++k) {
      double mean = 0.0;
      for (int r = 0; r < kRows; ++r) mean += x[r * kIn + k] / kRows;
      p.seen[k] = 0.5 * p.seen[k] + mean;
    }
    losses.push_back(loss);
  }

  void update(const std::vector<Numbers>& xs, const std::vector<Numbers>& ys) {
    Numbers gw1(p.w1.size()), gb1(p.b1.size()), gw2(p.w2.size());
    for (size_t i = 0; i < xs.size(); ++i) {
      Numbers h, o;
      forward(xs[i], ys[i], h, o);
      for (int r = 0; r < kRows; ++r) {
        Numbers dh(kHidden);
        for (int j = 0; j < kOut; ++j) {
          const double d = 2 * (o[r * kOut + j] - ys[i][r * kOut + j]) / (kRows * kOut);
          for (int k = 0; k < kHidden; ++k) {
            gw2[j * kHidden + k] += d * h[r * kHidden + k] / xs.size();
            if (h[r * kHidden + k] > 0) dh[k] += d * p.w2[j * kHidden + k];
          }
        }
        for (int j = 0; j < kHidden; ++j) {
          gb1[j] += dh[j] / xs.size();
          for (int k = 0; k < kIn; ++k) gw1[j * kIn + k] += dh[j] * xs[i][r * kIn + k] / xs.size();
        }
      }
    }
    auto step = [&](Numbers& w, Numbers& v, const Numbers& g) {
      for (size_t i = 0; i < w.size(); ++i) {
        v[i] = momentum * v[i] + g[i];
        w[i] -= lr * v[i];
      }
    };
    step(p.w1, vw1, gw1);
    step(p.b1, vb1, gb1);
    step(p.w2, vw2, gw2);
  }
};

Numbers random_numbers(std::mt19937& random, int count) {
  Numbers numbers(count);
  for (double& n : numbers) n = std::uniform_real_distribution<double>(-1, 1)(random);
  return numbers;
}

StepOptions training_options(const Network& network, bool streamed) {
  StepOptions options;
  options.training = true;
  options.loss = network.loss;
  optimizers::Group group;
  group.hyper = {{"lr", {0.1, !streamed}}, {"momentum", {0.9, !streamed}}};
  options.optimizer.groups = {group};
  options.optimizer.loss_scaling = {16.0, !streamed};
  options.optimizer.group_of = {{"w1", 0}, {"b1", 0}, {"w2", 0}, {"b2", 0}};
  return options;
}

struct Plan {
  std::string name;
  std::vector<std::string> blocks;
  std::map<std::string, StepOptions::Placement> places;
  Schedule schedule;
  PhaseOptions phases = {};
  bool is_off_chip = false;

  void apply_to(StepOptions& options) const {
    options.places = places;
    options.schedule = schedule;
    options.phases = phases;
    if (!is_off_chip) return;
    for (TensorLocation* family :
         {&options.weights, &options.optimizer_state, &options.accumulators, &options.activations})
      *family = {.off_chip = true, .min_elements_off_chip = 0};
  }
};

// Three phases; on IPUs 0, 1, 0 where they are parallel. What another phase needs leaves the chip.
std::vector<Plan> phased_plans() {
  std::vector<Plan> plans;
  for (int liveness = 0; liveness < 4; ++liveness)
    for (bool separate : {false, true})
      plans.push_back({"serial phases, liveness " + std::to_string(liveness),
                       {"a", "b", "c"},
                       {{"a", {0, 0, 0}}, {"b", {0, 0, 1}}, {"c", {0, 0, 2}}},
                       Schedule::kPhased,
                       {false, separate, static_cast<Liveness>(liveness), 3},
                       true});
  for (Liveness liveness : {Liveness::kAlwaysLive, Liveness::kOffChipAfterFwd})
    plans.push_back({"parallel phases",
                     {"a", "b", "c"},
                     {{"a", {0, 0, 0}}, {"b", {0, 1, 1}}, {"c", {0, 0, 2}}},
                     Schedule::kPhased,
                     {true, false, liveness, 3},
                     true});
  return plans;
}

std::vector<Plan> plans() {
  std::vector<Plan> all = {
      {"one IPU", {""}, {}, Schedule::kPipelined},
      {"sharded over 2", {"a", "a", "b"}, {{"a", {0, 0}}, {"b", {1, 1}}}, Schedule::kSharded},
      {"sharded over 3", {"a", "b", "c"}, {{"a", {0, 0}}, {"b", {1, 1}}, {"c", {2, 2}}}, Schedule::kSharded},
      {"pipelined over 2", {"a", "a", "b"}, {{"a", {0, 0}}, {"b", {1, 1}}}, Schedule::kPipelined},
      {"pipelined over 4",
       {"a", "b", "c", "d"},
       {{"a", {0, 0}}, {"b", {1, 1}}, {"c", {2, 2}}, {"d", {3, 3}}},
       Schedule::kPipelined},
      {"pipelined over IPUs 0, 1, 0",
       {"a", "b", "c"},
       {{"a", {0, 0}}, {"b", {1, 1}}, {"c", {2, 0}}},
       Schedule::kPipelined},
      {"one IPU, off chip", {""}, {}, Schedule::kPipelined, {}, true},
      {"sharded over 2, off chip",
       {"a", "a", "b"},
       {{"a", {0, 0}}, {"b", {1, 1}}},
       Schedule::kSharded,
       {},
       true},
      {"pipelined over 2, off chip",
       {"a", "a", "b"},
       {{"a", {0, 0}}, {"b", {1, 1}}},
       Schedule::kPipelined,
       {},
       true},
  };
  for (const Plan& plan : phased_plans()) all.push_back(plan);
  return all;
}

const std::vector<std::string> kLoweringSteps = {"place", "inline-calls", "inline-single-trip-loops",
                                                 "pipeline-to-rings", "insert-ipu-copies"};

// As the step builder leaves it; after the passes that a program needs; after all passes of compile().
enum class Form { kBuilt, kLowered, kOptimized };
constexpr Form kForms[] = {Form::kBuilt, Form::kLowered, Form::kOptimized};
std::string to_string(Form form) {
  return form == Form::kBuilt ? "" : form == Form::kLowered ? ", lowered" : ", optimized";
}

// No op reads a value of another IPU, except copies; every op has a place.
void expect_crossings_are_copies(const ir::Module& module) {
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      if (!ir::called_graphs(*op).empty()) continue;
      ASSERT_TRUE(op->settings.ipu.has_value()) << ir::print(*op);
      for (int i = 0; i < op->operand_count(); ++i) {
        const ir::Op* producer = op->operand(i) == nullptr ? nullptr : op->operand(i)->producer();
        if (producer == nullptr || !ir::called_graphs(*producer).empty()) continue;
        const int64_t here = op->is("ipu_copy") ? op->attributes.integer("from") : *op->settings.ipu;
        EXPECT_EQ(*producer->settings.ipu, here) << ir::print(*op);
      }
    }
}

void bring_to(ir::Module& module, Form form) {
  if (form == Form::kBuilt) return;
  passes::run_pipeline(module,
                       form == Form::kLowered ? kLoweringSteps : passes::named_pipelines().at("default"), {},
                       passes::Verify::kEachPass);
  expect_crossings_are_copies(module);
}

void check_training(const Plan& plan, int64_t device_iterations, int64_t accumulation, bool streamed,
                    Form form) {
  SCOPED_TRACE(plan.name + ", DI " + std::to_string(device_iterations) + ", GA " +
               std::to_string(accumulation) + (streamed ? ", streamed" : "") + to_string(form));
  Network network(plan.blocks);
  StepOptions options = training_options(network, streamed);
  options.device_iterations = device_iterations;
  options.accumulation = accumulation;
  plan.apply_to(options);
  build_step(network.forward, options);
  ops::verify(network.module, ir::Form::kFunctional);
  EXPECT_EQ(network.module.remote_buffers().empty(), !plan.is_off_chip);
  bring_to(network.module, form);

  std::mt19937 random(7);
  Parameters start{random_numbers(random, kHidden * kIn), random_numbers(random, kHidden),
                   random_numbers(random, kOut * kHidden), random_numbers(random, kOut), Numbers(kIn)};
  Reference reference(start);
  ops::Interpreter interpreter(network.module, ops::Arithmetic::kF64);
  auto set = [&](const std::string& name, Shape shape, const Numbers& values) {
    interpreter.variables[name] = {{DType::kF32, std::move(shape)}, values};
  };
  set("w1", {kHidden, kIn}, start.w1);
  set("b1", {kHidden}, start.b1);
  set("w2", {kOut, kHidden}, start.w2);
  set("b2", {kOut}, start.b2);
  set("seen", {kIn}, start.seen);

  for (int run = 0; run < 3; ++run) {
    for (const ir::Stream& stream : network.module.streams())
      if (stream.constant) interpreter.streams[stream.name].clear();
    if (streamed) {
      interpreter.streams["optimizer.0.lr"] = {{{DType::kF32, {}}, {0.1}}};
      interpreter.streams["optimizer.0.momentum"] = {{{DType::kF32, {}}, {0.9}}};
      interpreter.streams["optimizer.loss_scaling"] = {{{DType::kF32, {}}, {16.0}}};
    }
    for (int i = 0; i < device_iterations; ++i) {
      std::vector<Numbers> xs, ys;
      for (int k = 0; k < accumulation; ++k) {
        xs.push_back(random_numbers(random, kRows * kIn));
        ys.push_back(random_numbers(random, kRows * kOut));
        interpreter.streams["x"].push_back({{DType::kF32, {kRows, kIn}}, xs.back()});
        interpreter.streams["y"].push_back({{DType::kF32, {kRows, kOut}}, ys.back()});
      }
      reference.update(xs, ys);
    }
    interpreter.run_entry_point("main");
  }
  ASSERT_EQ(interpreter.streams["loss"].size(), reference.losses.size());
  for (size_t i = 0; i < reference.losses.size(); ++i)
    ASSERT_NEAR(interpreter.streams["loss"][i].values[0], reference.losses[i], 1e-6) << "micro-batch " << i;
  EXPECT_EQ(interpreter.streams["out"].size(), reference.losses.size());
  auto compare = [&](const std::string& name, const Numbers& expected) {
    const Numbers& values = interpreter.variables.at(name).values;
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-6) << name << " " << i;
  };
  compare("w1", reference.p.w1);
  compare("b1", reference.p.b1);
  compare("w2", reference.p.w2);
  compare("b2", start.b2);
  compare("seen", reference.p.seen);
  compare("Accl1___w1", reference.vw1);
}

TEST(StepBuilder, TrainingIsTheSameOnEveryPlan) {
  for (const Plan& plan : plans()) {
    const bool is_pipeline = plan.schedule == Schedule::kPipelined && plan.places.size() > 1;
    const auto stages = static_cast<int64_t>(plan.places.size());
    const int64_t least = is_pipeline ? 2 * stages - 1 : 1;
    for (int64_t device_iterations : {1, 3})
      for (int64_t accumulation : {least, least + 1, 2 * least})
        for (Form form : kForms) {
          check_training(plan, device_iterations, accumulation, accumulation == least + 1, form);
          if (testing::Test::HasFatalFailure()) return;
        }
  }
}

TEST(StepBuilder, InferenceIsTheSameOnEveryPlan) {
  for (const Plan& plan : plans())
    for (Form form : kForms) {
      SCOPED_TRACE(plan.name + to_string(form));
      Network network(plan.blocks);
      StepOptions options;
      options.device_iterations = 5;
      plan.apply_to(options);
      build_step(network.forward, options);
      bring_to(network.module, form);
      std::mt19937 random(5);
      Parameters start{random_numbers(random, kHidden * kIn), random_numbers(random, kHidden),
                       random_numbers(random, kOut * kHidden), random_numbers(random, kOut), Numbers(kIn)};
      Reference reference(start);
      ops::Interpreter interpreter(network.module, ops::Arithmetic::kF64);
      interpreter.variables["w1"] = {{DType::kF32, {kHidden, kIn}}, start.w1};
      interpreter.variables["b1"] = {{DType::kF32, {kHidden}}, start.b1};
      interpreter.variables["w2"] = {{DType::kF32, {kOut, kHidden}}, start.w2};
      interpreter.variables["b2"] = {{DType::kF32, {kOut}}, start.b2};
      interpreter.variables["seen"] = {{DType::kF32, {kIn}}, start.seen};
      std::vector<Numbers> outs;
      for (int i = 0; i < 5; ++i) {
        const Numbers x = random_numbers(random, kRows * kIn), y = random_numbers(random, kRows * kOut);
        interpreter.streams["x"].push_back({{DType::kF32, {kRows, kIn}}, x});
        interpreter.streams["y"].push_back({{DType::kF32, {kRows, kOut}}, y});
        Numbers h, o;
        reference.forward(x, y, h, o);
        outs.push_back(o);
      }
      interpreter.run_entry_point("main");
      ASSERT_EQ(interpreter.streams["out"].size(), outs.size());
      for (size_t i = 0; i < outs.size(); ++i)
        for (size_t k = 0; k < outs[i].size(); ++k)
          EXPECT_NEAR(interpreter.streams["out"][i].values[k], outs[i][k], 1e-9);
      for (int k = 0; k < kIn; ++k)
        EXPECT_NEAR(interpreter.variables["seen"].values[k], reference.p.seen[k], 1e-9);
    }
}

// x W, tanh, then W^T: one variable read in the first and in the last stage.
std::map<std::string, Numbers> train_tied(const Plan& plan, Form form, bool as_two_inputs) {
  ir::Module module;
  ForwardGraph forward;
  ir::Graph* graph = module.add_graph("forward");
  forward.graph = graph;
  forward.inputs.push_back({ForwardGraph::Input::Kind::kHost, "x", DType::kF32, false});
  forward.inputs.push_back({ForwardGraph::Input::Kind::kVariable, "w", DType::kF32, true, true});
  Value* x = graph->add_input({DType::kF32, {kRows, kIn}}, "x");
  Value* first = graph->add_input({DType::kF32, {kHidden, kIn}}, "w");
  Value* second = first;
  if (as_two_inputs) {
    forward.inputs.push_back({ForwardGraph::Input::Kind::kVariable, "w", DType::kF32, true, true});
    second = graph->add_input({DType::kF32, {kHidden, kIn}}, "w");
  }
  ir::Builder builder(graph);
  auto enter = [&](size_t part) {
    builder.settings.block = plan.blocks[std::min(part, plan.blocks.size() - 1)];
  };
  enter(0);
  Value* h = ops::build(builder, "linear", {x, first, nullptr});
  enter(1);
  h = ops::build(builder, "tanh", {h});
  enter(2);
  Value* o = ops::build(builder, "matmul", {h, second});
  enter(3);
  Value* d = ops::build(builder, "sub", {o, x});
  Value* loss = ops::build(builder, "reduce_sum", {ops::build(builder, "mul", {d, d})},
                           {{"dims", std::vector<int64_t>{0, 1}}, {"keep_dims", false}});
  graph->append_output(loss);
  forward.outputs.push_back(
      {ForwardGraph::Output::Kind::kHost, "loss", DType::kF32, ir::OutputMode::kAll, 1});

  StepOptions options;
  options.training = true;
  options.loss = loss;
  optimizers::Group group;
  group.hyper = {{"lr", {0.01, false}}, {"momentum", {0.9, true}}, {"weight_decay", {0.1, true}}};
  options.optimizer.kind = optimizers::Kind::kSgdCombined;
  options.optimizer.groups = {group};
  options.optimizer.group_of = {{"w", 0}};
  options.accumulation = 8;
  options.device_iterations = 2;
  plan.apply_to(options);
  build_step(forward, options);
  ops::verify(module, ir::Form::kFunctional);
  bring_to(module, form);
  std::mt19937 random(11);
  ops::Interpreter interpreter(module, ops::Arithmetic::kF64);
  interpreter.variables["w"] = {{DType::kF32, {kHidden, kIn}}, random_numbers(random, kHidden * kIn)};
  std::map<std::string, Numbers> results;
  for (int run = 0; run < 2; ++run) {
    interpreter.streams["optimizer.0.lr"] = {{{DType::kF32, {}}, {0.01}}};
    for (int i = 0; i < 16; ++i)
      interpreter.streams["x"].push_back({{DType::kF32, {kRows, kIn}}, random_numbers(random, kRows * kIn)});
    interpreter.run_entry_point("main");
  }
  for (const ops::ReferenceTensor& loss_value : interpreter.streams["loss"])
    results["loss"].push_back(loss_value.values[0]);
  results["w"] = interpreter.variables.at("w").values;
  results["Accl"] = interpreter.variables.at("Accl___w").values;
  return results;
}

TEST(StepBuilder, TiedParametersTrainTheSameOnEveryPlan) {
  const std::map<std::string, Numbers> expected = train_tied(plans()[0], Form::kBuilt, false);
  EXPECT_LT(expected.at("loss").back(), expected.at("loss").front());
  for (const Plan& plan : plans())
    for (Form form : kForms)
      for (bool as_two_inputs : {false, true}) {
        SCOPED_TRACE(plan.name + to_string(form) + (as_two_inputs ? ", two inputs" : ""));
        const std::map<std::string, Numbers> results = train_tied(plan, form, as_two_inputs);
        for (const auto& [name, numbers] : expected) {
          ASSERT_EQ(results.at(name).size(), numbers.size());
          for (size_t i = 0; i < numbers.size(); ++i)
            EXPECT_NEAR(results.at(name)[i], numbers[i], 1e-9) << name << " " << i;
        }
      }
}

TEST(StepBuilder, HalfAccumulatorsHoldARunningMean) {
  const Plan plan = plans()[3];
  Network network(plan.blocks);
  StepOptions options = training_options(network, false);
  options.optimizer.accum_dtype = DType::kF16;
  options.accumulation = 4;
  options.places = plan.places;
  build_step(network.forward, options);
  bring_to(network.module, Form::kOptimized);
  std::mt19937 random(7);
  Parameters start{random_numbers(random, kHidden * kIn), random_numbers(random, kHidden),
                   random_numbers(random, kOut * kHidden), random_numbers(random, kOut), Numbers(kIn)};
  Reference reference(start);
  ops::Interpreter interpreter(network.module, ops::Arithmetic::kF64);
  interpreter.variables["w1"] = {{DType::kF32, {kHidden, kIn}}, start.w1};
  interpreter.variables["b1"] = {{DType::kF32, {kHidden}}, start.b1};
  interpreter.variables["w2"] = {{DType::kF32, {kOut, kHidden}}, start.w2};
  interpreter.variables["b2"] = {{DType::kF32, {kOut}}, start.b2};
  interpreter.variables["seen"] = {{DType::kF32, {kIn}}, start.seen};
  std::vector<Numbers> xs, ys;
  for (int i = 0; i < 4; ++i) {
    xs.push_back(random_numbers(random, kRows * kIn));
    ys.push_back(random_numbers(random, kRows * kOut));
    interpreter.streams["x"].push_back({{DType::kF32, {kRows, kIn}}, xs.back()});
    interpreter.streams["y"].push_back({{DType::kF32, {kRows, kOut}}, ys.back()});
  }
  interpreter.run_entry_point("main");
  reference.update(xs, ys);
  for (size_t i = 0; i < start.w1.size(); ++i)
    EXPECT_NEAR(interpreter.variables.at("w1").values[i], reference.p.w1[i], 1e-6);
}

TEST(StepBuilder, OutputModesAreDeclaredOnTheStreams) {
  for (ir::OutputMode mode :
       {ir::OutputMode::kFinal, ir::OutputMode::kEveryN, ir::OutputMode::kAll, ir::OutputMode::kSum}) {
    Network network({""}, mode, mode == ir::OutputMode::kEveryN ? 3 : 1);
    StepOptions options = training_options(network, false);
    options.device_iterations = 3;
    options.accumulation = 2;
    build_step(network.forward, options);
    const ir::Stream* stream = network.module.find_stream("out");
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(stream->mode, mode);
    EXPECT_EQ(stream->period, mode == ir::OutputMode::kEveryN ? 3 : 1);
    EXPECT_EQ(stream->direction, ir::StreamDirection::kDeviceToHost);
    EXPECT_EQ(stream->type.shape, (Shape{kRows, kOut}));
  }
}

TEST(StepBuilder, HyperParametersAreLoadedOncePerRunOrConstant) {
  for (bool streamed : {false, true}) {
    Network network({""});
    StepOptions options = training_options(network, streamed);
    options.device_iterations = 3;
    build_step(network.forward, options);
    const ir::Graph& main = *network.module.find_graph("main");
    int loads = 0;
    for (const auto& op : main.ops()) loads += op->is("host_load");
    EXPECT_EQ(loads, streamed ? 3 : 0);
    for (const ir::Stream& stream : network.module.streams())
      EXPECT_EQ(stream.constant, stream.name.starts_with("optimizer."));
  }
}

TEST(StepBuilder, ParameterTheLossDoesNotDependOnKeepsItsValueAndHasNoState) {
  Network network({""});
  // The loss of the first layer alone.
  ir::Builder builder(network.forward.graph);
  network.loss = ops::build(builder, "reduce_mean", {network.forward.graph->ops().front()->result()},
                            {{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}});
  network.loss = nullptr;
  for (const auto& op : network.forward.graph->ops())
    if (op->is("relu"))
      network.loss = ops::build(builder, "reduce_sum", {op->result()},
                                {{"dims", std::vector<int64_t>{0, 1}}, {"keep_dims", false}});
  StepOptions options = training_options(network, false);
  build_step(network.forward, options);
  EXPECT_NE(network.module.find_variable("Accl1___w1"), nullptr);
  EXPECT_EQ(network.module.find_variable("Accl1___w2"), nullptr);
  for (const auto& op : network.module.find_graph("main")->ops())
    if (op->is("variable.assign")) {
      EXPECT_NE(op->attributes.symbol("variable").name, "w2");
    }
}

void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& act) {
  try {
    act();
    FAIL() << "no error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(StepBuilder, TooFewMicroBatchesNameTheRequiredNumber) {
  const Plan plan = plans()[4];
  expect_error(
      ErrorCode::kGradientAccumulationTooSmall,
      "a weight update has 6 micro-batches, and this pipeline needs at least 7: the forward pass has "
      "4 stages and "
      "the backward pass adds 3 stages",
      [&] {
        Network network(plan.blocks);
        StepOptions options = training_options(network, false);
        options.places = plan.places;
        options.accumulation = 6;
        build_step(network.forward, options);
      });
  expect_error(ErrorCode::kDeviceIterationsTooSmall,
               "a run has 3, and a pipeline of 4 stages needs at least 4", [&] {
                 Network network(plan.blocks);
                 StepOptions options;
                 options.places = plan.places;
                 options.device_iterations = 3;
                 build_step(network.forward, options);
               });
}

TEST(StepBuilder, OutputPeriodMustDivideDeviceIterations) {
  for (int64_t period : {2, 6}) {
    Network network({""}, ir::OutputMode::kEveryN, period);
    StepOptions options = training_options(network, false);
    options.device_iterations = 3;
    try {
      build_step(network.forward, options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutputPeriod);
      EXPECT_EQ(error.type(), kPopartException);
      EXPECT_NE(error.message().find("does not divide the 3 iterations"), std::string::npos)
          << error.message();
    }
  }
}

TEST(StepBuilder, StageThatGoesBackIsRefusedAndTheSameIpusForwardAreNot) {
  const std::vector<std::string> blocks = {"a", "b", "c"};
  auto build = [&](StepOptions::Placement c) {
    Network network(blocks);
    for (const auto& op : network.forward.graph->ops())
      op->location = std::make_shared<ir::LocationData>(
          ir::LocationData{"model.py", 5 + static_cast<int>(op->id()), ""});
    StepOptions options = training_options(network, false);
    options.places = {{"a", {0, 0}}, {"b", {1, 1}}, {"c", c}};
    options.accumulation = 5;
    build_step(network.forward, options);
    passes::run_pipeline(network.module, kLoweringSteps, {}, passes::Verify::kEachPass);
  };
  EXPECT_NO_THROW(build({2, 0}));
  expect_error(
      ErrorCode::kStageOrder,
      "in block 'c' (stage 0, IPU 0) reads a result of 'relu' at model.py:10 in block 'b' (stage 1, IPU 1)",
      [&] {
        build({0, 0});
      });
}

}  // namespace
}  // namespace ipu::frontends
