// Whole training and inference steps through compile(): the engine's numbers against the interpreter's on the
// module before any pass, on one and several IPUs.
#include "executable/compile.h"

#include <gtest/gtest.h>

#include "frontends/common/step_builder.h"
#include "ir/text/text.h"
#include "ops/definition/build.h"
#include "support/error.h"
#include "tests/lowering/oracle.h"

namespace ipu::executable {
namespace {

using frontends::ForwardGraph;
using ir::Value;

struct Case {
  bool convolutions = false;
  bool training = true;
  int stages = 1;
  bool pipelined = true;
  int64_t device_iterations = 1, accumulation = 1;
};

// A forward graph under construction, one block per stage.
class Network {
 public:
  explicit Network(const Case& c)
      : case_(c),
        module_(std::make_unique<ir::Module>()),
        graph_(module_->add_graph("forward")),
        builder_(graph_) {
    forward_.graph = graph_;
    options_.places[""] = {0, 0};
  }

  Value* input(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    forward_.inputs.push_back({ForwardGraph::Input::Kind::kHost, name, dtype, false});
    return graph_->add_input({dtype, std::move(shape)}, name);
  }
  Value* variable(const std::string& name, Shape shape, bool trainable = true) {
    forward_.inputs.push_back({ForwardGraph::Input::Kind::kVariable, name, DType::kF32, trainable});
    if (trainable) options_.optimizer.group_of[name] = 0;
    return graph_->add_input({DType::kF32, std::move(shape)}, name);
  }
  void output(const std::string& name, Value* value,
              ForwardGraph::Output::Kind kind = ForwardGraph::Output::Kind::kHost) {
    graph_->append_output(value);
    forward_.outputs.push_back({kind, name, DType::kF32, ir::OutputMode::kAll, 1});
  }
  // Ops from now on belong to layer `layer` of `layers`.
  void enter(int layer, int layers) {
    int stage = layer * case_.stages / layers;
    builder_.settings.block = "block" + std::to_string(stage);
    options_.places[builder_.settings.block] = {stage, stage};
  }
  Value* op(std::string_view kind, std::initializer_list<Value*> operands, Attributes attributes = {}) {
    return ops::build(builder_, kind, operands, std::move(attributes));
  }
  ir::Builder& builder() { return builder_; }

  std::unique_ptr<ir::Module> finish(Value* loss) {
    options_.training = case_.training;
    options_.loss = loss;
    options_.device_iterations = case_.device_iterations;
    options_.accumulation = case_.accumulation;
    options_.schedule = case_.pipelined ? frontends::Schedule::kPipelined : frontends::Schedule::kSharded;
    optimizers::Group group;
    group.hyper = {{"lr", {0.05, false}},
                   {"momentum", {0.9, true}},
                   {"dampening", {0.0, true}},
                   {"weight_decay", {0.01, true}},
                   {"velocity_scaling", {1.0, true}}};
    options_.optimizer.groups = {group};
    build_step(forward_, options_);
    return std::move(module_);
  }

 private:
  const Case& case_;
  std::unique_ptr<ir::Module> module_;
  ir::Graph* graph_;
  ir::Builder builder_;
  ForwardGraph forward_;
  frontends::StepOptions options_;
};

// A chain of linear layers with relu, a tied weight in the first and last one, a buffer that is updated.
std::unique_ptr<ir::Module> make_chain(const Case& c) {
  Network n(c);
  const int layers = 4;
  Value *x = n.input("x", {3, 6}), *y = n.input("y", {3, 6}), *seen = n.variable("seen", {6}, false);
  std::vector<Value*> weights, biases;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(i == layers - 1 ? weights[0] : n.variable("w" + std::to_string(i), {6, 6}));
    biases.push_back(n.variable("b" + std::to_string(i), {6}));
  }
  n.enter(0, layers);
  Value* mean = n.op("reduce_mean", {x}, {{"dims", Shape{0}}, {"keep_dims", false}});
  Value* next_seen = n.op("add", {n.op("mul", {seen, n.builder().scalar(DType::kF32, 0.5)}), mean});
  Value* h = x;
  for (int i = 0; i < layers; ++i) {
    n.enter(i, layers);
    h = n.op("linear", {h, weights[i], biases[i]});
    if (i + 1 < layers) h = n.op("relu", {h});
  }
  Value* d = n.op("sub", {h, y});
  Value* loss = n.op("reduce_mean", {n.op("mul", {d, d})}, {{"dims", Shape{0, 1}}, {"keep_dims", false}});
  n.output("out", h);
  n.output("loss", loss);
  n.output("seen", next_seen, ForwardGraph::Output::Kind::kState);
  return n.finish(loss);
}

// Two convolutions with pooling, two linear layers, cross-entropy.
std::unique_ptr<ir::Module> make_convolutions(const Case& c) {
  Network n(c);
  Value *x = n.input("x", {3, 2, 8, 8}), *target = n.input("target", {3}, DType::kI32);
  Value *w1 = n.variable("w1", {4, 2, 3, 3}), *b1 = n.variable("b1", {4}),
        *w2 = n.variable("w2", {6, 4, 3, 3}), *b2 = n.variable("b2", {6});
  Value *w3 = n.variable("w3", {20, 24}), *b3 = n.variable("b3", {20}), *w4 = n.variable("w4", {5, 20}),
        *b4 = n.variable("b4", {5});
  const Attributes same{{"strides", Shape{1, 1}},
                        {"padding_low", Shape{1, 1}},
                        {"padding_high", Shape{1, 1}},
                        {"dilations", Shape{1, 1}}};
  const Attributes half{{"kernel", Shape{2, 2}},
                        {"strides", Shape{2, 2}},
                        {"padding_low", Shape{0, 0}},
                        {"padding_high", Shape{0, 0}},
                        {"dilations", Shape{1, 1}}};
  n.enter(0, 4);
  Value* h = n.op("max_pool", {n.op("relu", {n.op("conv", {x, w1, b1}, same)})}, half);
  n.enter(1, 4);
  h = n.op("max_pool", {n.op("relu", {n.op("conv", {h, w2, b2}, same)})}, half);
  n.enter(2, 4);
  h = n.op("relu", {n.op("linear", {n.op("reshape", {h}, {{"shape", Shape{3, 24}}}), w3, b3})});
  n.enter(3, 4);
  h = n.op("linear", {h, w4, b4});
  Value* loss = n.op("cross_entropy", {h, target});
  n.output("out", h);
  n.output("loss", loss);
  return n.finish(loss);
}

std::unique_ptr<ir::Module> make_step(const Case& c) {
  return c.convolutions ? make_convolutions(c) : make_chain(c);
}

Executable compile_case(ir::Module& module, const Case& c, int replicas = 1) {
  CompileOptions options;
  options.auto_round_num_ipus = true;
  options.replicas = replicas;
  return compile(module, target::find_system("pod16"), options);
}

void check(const Case& c) {
  SCOPED_TRACE(std::string(c.convolutions ? "convolutions, " : "chain, ") + std::to_string(c.stages) +
               " stages, training " + std::to_string(c.training) + ", pipelined " +
               std::to_string(c.pipelined) + ", DI " + std::to_string(c.device_iterations) + ", GA " +
               std::to_string(c.accumulation));
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

TEST(Compile, ConvolutionsOnOneIpuShardedAndPipelined) {
  check({.convolutions = true, .training = false});
  check({.convolutions = true, .training = false, .stages = 2, .device_iterations = 3});
  check({.convolutions = true, .device_iterations = 2, .accumulation = 2});
  check({.convolutions = true, .stages = 3, .pipelined = false, .accumulation = 2});
  check({.convolutions = true, .stages = 2, .device_iterations = 2, .accumulation = 4});
  check({.convolutions = true, .stages = 4, .accumulation = 9});
}

TEST(Compile, WeightsOfLinearLayersAreStoredInPanelsAndActivationsChannelsLast) {
  Case c{.convolutions = true, .accumulation = 2};
  auto module = make_step(c);
  Executable executable = compile_case(*module, c);
  for (const program::Variable& variable : executable.program->variables) {
    const bool panels = variable.name.ends_with("w3") || variable.name.ends_with("w4");
    EXPECT_EQ(variable.spec.layout, panels ? Layout::kPacked64 : Layout::kPlain) << variable.name;
  }
  int channels_last = 0;
  for (const program::Instruction& step : executable.program->ipus[0].instructions)
    for (const program::Operand& result : step.results) channels_last += result.spec.layout == Layout::kNhwc;
  EXPECT_GE(channels_last, 8);
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
    EXPECT_NE(error.message().find("Distributed execution is required"), std::string::npos)
        << error.message();
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
