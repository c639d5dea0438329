// Steps of small networks as their front end builds them, and their compilation: for tests of the front door.
#pragma once

#include <memory>
#include <string>

#include "executable/compile.h"
#include "frontends/common/step_builder.h"
#include "ops/definition/build.h"

namespace ipu::executable::step_samples {

using frontends::ForwardGraph;
using ir::Value;

struct Case {
  bool convolutions = false;
  bool training = true;
  int stages = 1;
  bool pipelined = true;
  int64_t device_iterations = 1, accumulation = 1;
  ir::RecomputationMode recomputation = ir::RecomputationMode::kNone;
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
    options_.schedule = case_.pipelined ? ir::Schedule::kPipelined : ir::Schedule::kSharded;
    options_.recomputation = case_.recomputation;
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
inline std::unique_ptr<ir::Module> make_chain(const Case& c) {
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
inline std::unique_ptr<ir::Module> make_convolutions(const Case& c) {
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

inline std::unique_ptr<ir::Module> make_step(const Case& c) {
  return c.convolutions ? make_convolutions(c) : make_chain(c);
}

inline Executable compile_case(ir::Module& module, const Case& c, int replicas = 1) {
  CompileOptions options;
  options.auto_round_num_ipus = true;
  options.replicas = replicas;
  return compile(module, target::find_system("pod16"), options);
}

}  // namespace ipu::executable::step_samples
