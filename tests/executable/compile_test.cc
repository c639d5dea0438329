// Whole training and inference steps through compile(): the engine's numbers against the interpreter's on the module
// before any pass, on one and several IPUs.
#include "executable/compile.h"

#include <gtest/gtest.h>

#include "frontends/common/step_builder.h"
#include "ir/text.h"
#include "ops/build.h"
#include "support/error.h"
#include "tests/lowering/oracle.h"

namespace ipu::executable {
namespace {

using frontends::ForwardGraph;
using ir::Value;

struct Case {
  bool training = true;
  int stages = 1;
  bool pipelined = true;
  int64_t device_iterations = 1, accumulation = 1;
};

// A chain of linear layers with relu, a tied weight in the first and last one, a buffer that is updated, one block each.
std::unique_ptr<ir::Module> make_step(const Case& c) {
  auto module = std::make_unique<ir::Module>();
  ForwardGraph forward;
  ir::Graph* graph = module->add_graph("forward");
  forward.graph = graph;
  auto input = [&](const std::string& name, Shape shape, bool variable, bool trainable) {
    forward.inputs.push_back({variable ? ForwardGraph::Input::Kind::kVariable : ForwardGraph::Input::Kind::kHost, name,
                              DType::kF32, trainable});
    return graph->add_input({DType::kF32, std::move(shape)}, name);
  };
  const int layers = 4;
  Value* x = input("x", {3, 6}, false, false);
  Value* y = input("y", {3, 6}, false, false);
  Value* seen = input("seen", {6}, true, false);
  std::vector<Value*> weights, biases;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(i == layers - 1 ? weights[0] : input("w" + std::to_string(i), {6, 6}, true, true));
    biases.push_back(input("b" + std::to_string(i), {6}, true, true));
  }
  ir::Builder builder(graph);
  frontends::StepOptions options;
  auto enter = [&](int layer) {
    int stage = layer * c.stages / layers;
    builder.settings.block = "block" + std::to_string(stage);
    options.places[builder.settings.block] = {stage, stage};
  };
  enter(0);
  options.places[""] = {0, 0};
  Value* mean = ops::build(builder, "reduce_mean", {x}, {{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}});
  Value* next_seen = ops::build(builder, "add", {ops::build(builder, "mul", {seen, builder.scalar(DType::kF32, 0.5)}), mean});
  Value* h = x;
  for (int i = 0; i < layers; ++i) {
    enter(i);
    h = ops::build(builder, "linear", {h, weights[i], biases[i]});
    if (i + 1 < layers) h = ops::build(builder, "relu", {h});
  }
  Value* d = ops::build(builder, "sub", {h, y});
  Value* loss = ops::build(builder, "reduce_mean", {ops::build(builder, "mul", {d, d})},
                           {{"dims", std::vector<int64_t>{0, 1}}, {"keep_dims", false}});
  auto output = [&](const std::string& name, Value* value, ForwardGraph::Output::Kind kind) {
    graph->append_output(value);
    forward.outputs.push_back({kind, name, DType::kF32, ir::OutputMode::kAll, 1});
  };
  output("out", h, ForwardGraph::Output::Kind::kHost);
  output("loss", loss, ForwardGraph::Output::Kind::kHost);
  output("seen", next_seen, ForwardGraph::Output::Kind::kState);

  options.training = c.training;
  options.loss = loss;
  options.device_iterations = c.device_iterations;
  options.accumulation = c.accumulation;
  options.schedule = c.pipelined ? frontends::Schedule::kPipelined : frontends::Schedule::kSharded;
  optimizers::Group group;
  group.hyper = {{"lr", {0.05, false}}, {"momentum", {0.9, true}}, {"dampening", {0.0, true}}, {"weight_decay", {0.01, true}},
                 {"velocity_scaling", {1.0, true}}};
  options.optimizer.groups = {group};
  for (int i = 0; i < layers; ++i) {
    options.optimizer.group_of["w" + std::to_string(i)] = 0;
    options.optimizer.group_of["b" + std::to_string(i)] = 0;
  }
  build_step(forward, options);
  return module;
}

Executable compile_case(ir::Module& module, const Case& c, int replicas = 1) {
  CompileOptions options;
  options.device_iterations = c.device_iterations;
  options.accumulation = c.accumulation;
  options.auto_round_num_ipus = true;
  options.replicas = replicas;
  return compile(module, target::find_system("pod16"), options);
}

void check(const Case& c) {
  SCOPED_TRACE(std::to_string(c.stages) + " stages, training " + std::to_string(c.training) + ", pipelined " +
               std::to_string(c.pipelined) + ", DI " + std::to_string(c.device_iterations) + ", GA " + std::to_string(c.accumulation));
  std::unique_ptr<ir::Module> before = make_step(c), module = make_step(c);
  Executable executable = compile_case(*module, c);
  EXPECT_EQ(executable.ipus_per_replica, c.stages);
  EXPECT_EQ(static_cast<int>(executable.program->ipus.size()), c.stages);
  SCOPED_TRACE(executable.ir_text);
  testing_oracle::compare(*before, *executable.program, 2e-5, 0.25, {1, 2, 8});
}

TEST(Compile, InferenceOnOneIpu) {
  check({.training = false, .stages = 1, .device_iterations = 1});
  check({.training = false, .stages = 1, .device_iterations = 3});
}

TEST(Compile, TrainingOnOneIpu) {
  for (int64_t di : {1, 3})
    for (int64_t ga : {1, 2}) check({.stages = 1, .device_iterations = di, .accumulation = ga});
}

TEST(Compile, ShardedTrainingAndInference) {
  for (int stages : {2, 3, 4})
    for (int64_t di : {1, 3}) {
      check({.stages = stages, .pipelined = false, .device_iterations = di, .accumulation = 2});
      check({.training = false, .stages = stages, .pipelined = false, .device_iterations = di});
    }
}

TEST(Compile, PipelinedInference) {
  for (int stages : {2, 4})
    for (int64_t di : {4, 9}) check({.training = false, .stages = stages, .device_iterations = di});
}

TEST(Compile, PipelinedTraining) {
  for (int stages : {2, 4})
    for (int64_t ga : {2 * stages - 1, 4 * stages - 2})
      for (int64_t di : {1, 3}) check({.stages = stages, .device_iterations = di, .accumulation = ga});
}

TEST(Compile, AnIpusProgramHoldsNoVariableOfAnother) {
  Case c{.stages = 4, .accumulation = 7};
  auto module = make_step(c);
  Executable executable = compile_case(*module, c);
  for (int i = 0; i < 4; ++i)
    for (const program::Buffer& buffer : executable.program->ipus[i].buffers)
      if (buffer.storage == program::Storage::kVariable) {
        EXPECT_EQ(executable.program->variables[buffer.index].ipu, i);
      }
}

TEST(Compile, CountsIpusInPowersOfTwo) {
  Case c{.stages = 3, .pipelined = false};
  auto module = make_step(c);
  CompileOptions options;
  try {
    compile(*module, target::find_system("pod16"), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIpuCountNotPowerOfTwo);
    EXPECT_NE(error.message().find("3 IPUs are specified"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("4 must be reserved"), std::string::npos) << error.message();
  }
  module = make_step(c);
  Executable executable = compile_case(*module, c);
  EXPECT_EQ(executable.ipus_per_replica, 3);
  EXPECT_EQ(executable.ipus_reserved, 4);
}

TEST(Compile, RefusesMoreIpusThanAProcessHas) {
  Case c{.training = false, .stages = 4, .pipelined = false};
  auto module = make_step(c);
  try {
    compile_case(*module, c, 32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIpuCountNotPowerOfTwo);
    EXPECT_NE(error.message().find("Distributed execution is required"), std::string::npos) << error.message();
  }
}

TEST(Compile, RefusesUnknownPipelines) {
  auto module = make_step({});
  CompileOptions options;
  options.pipeline = "fast";
  EXPECT_THROW(compile(*module, target::find_system("pod16"), options), Error);
}

}  // namespace
}  // namespace ipu::executable
