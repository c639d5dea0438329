// A training step whose model calls one layer many times: the layer and its gradient are compiled once each, and the
// step is the same as with the calls put in place, random operations included.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "frontends/common/step_builder.h"
#include "ir/builder.h"
#include "ir/subroutine.h"
#include "ops/definition/build.h"
#include "ops/interpreter/interpreter.h"
#include "tests/lowering/oracle.h"

namespace ipu::frontends {
namespace {

using ir::Value;

constexpr int kLayers = 6, kIterations = 3;

// `asks`: whether the layer is a subroutine.
std::unique_ptr<ir::Module> step(bool asks, int ipus) {
  auto module = std::make_unique<ir::Module>();
  ForwardGraph forward;
  const ir::Type type{DType::kF32, {4, 4}};
  using In = ForwardGraph::Input::Kind;
  auto input = [&](In kind, const std::string& name, const ir::Type& of) {
    forward.inputs.push_back({kind, name, of.dtype, kind == In::kVariable});
    return forward.graph->add_input(of, name);
  };
  ir::Graph* layer = module->add_graph("layer");
  layer->attributes.set(ir::kSubroutine, asks);
  {
    Value *x = layer->add_input(type, "x"), *w = layer->add_input(type, "w");
    Value* seed = layer->add_input({DType::kU32, {2}}, "seed");
    ir::Builder b(layer);
    b.settings.ipu = 0;
    Value* y = ops::build(b, "tanh", {ops::build(b, "matmul", {x, w})});
    b.settings.ipu = ipus - 1;
    y = ops::build(b, "dropout", {y, seed}, {{"p", 0.25}, {"stream_id", int64_t{3}}});
    layer->append_output(ops::build(b, "add", {y, x}));
  }
  forward.graph = module->add_graph("forward");
  Value* x = input(In::kHost, "x", type);
  std::vector<Value*> weights;
  for (int i = 0; i < 3; ++i) weights.push_back(input(In::kVariable, "w" + std::to_string(i), type));
  ir::Builder b(forward.graph);
  b.settings.ipu = 0;
  for (int i = 0; i < kLayers; ++i) {
    const uint32_t words[] = {17, static_cast<uint32_t>(i)};
    Value* seed = b.constant(ir::make_constant(DType::kU32, {2}, words));
    x = b.call(layer, std::vector<Value*>{x, weights[i % 3], seed})[0];
  }
  StepOptions options;
  options.loss = ops::build(b, "reduce_mean", {ops::build(b, "mul", {x, x})},
                            {{"dims", std::vector<int64_t>{0, 1}}, {"keep_dims", false}});
  forward.graph->append_output(options.loss);
  forward.outputs.push_back(
      {ForwardGraph::Output::Kind::kHost, "loss", DType::kF32, ir::OutputMode::kAll, 1});
  options.training = true;
  options.device_iterations = kIterations;
  options.schedule = Schedule::kSharded;
  optimizers::Group group;
  group.hyper = {{"lr", {0.05, true}}, {"momentum", {0.9, true}}, {"weight_decay", {0.0, true}}};
  options.optimizer.groups = {group};
  for (int i = 0; i < 3; ++i) options.optimizer.group_of["w" + std::to_string(i)] = 0;
  build_step(forward, options);
  return module;
}

// Losses, then weights.
std::vector<float> run(const std::shared_ptr<const program::Program>& program, int threads) {
  emulator::EngineOptions options;
  options.threads = threads;
  emulator::Engine engine(program, options);
  for (size_t v = 0; v < program->variables.size(); ++v) {
    if (!program->variables[v].name.starts_with("w") || program->variables[v].name.size() != 2) continue;
    std::vector<float> value;
    for (int i = 0; i < 16; ++i)
      value.push_back(0.1F * static_cast<float>((i * 7 + static_cast<int>(v)) % 9) - 0.3F);
    engine.write_variable(static_cast<int>(v), reinterpret_cast<const std::byte*>(value.data()));
  }
  std::vector<float> x, result(kIterations);
  for (int i = 0; i < 16 * kIterations; ++i) x.push_back(0.25F * static_cast<float>(i % 11) - 1.0F);
  std::vector<emulator::StreamBinding> streams;
  for (const program::Stream& stream : program->streams)
    streams.push_back(
        {reinterpret_cast<std::byte*>(stream.is_input() ? x.data() : result.data()), kIterations});
  engine.run(streams);
  for (size_t v = 0; v < program->variables.size(); ++v) {
    std::vector<float> value(16);
    if (program->variables[v].name.size() != 2) continue;
    engine.read_variable(static_cast<int>(v), reinterpret_cast<std::byte*>(value.data()));
    result.insert(result.end(), value.begin(), value.end());
  }
  return result;
}

std::shared_ptr<const program::Program> compiled(bool asks, int ipus) {
  return executable::compile(*step(asks, ipus), target::find_system("pod16"), {}).program;
}

TEST(CalledLayers, AreCompiledOnceWithTheirGradients) {
  for (int ipus : {1, 2}) {
    SCOPED_TRACE(ipus);
    const auto kept = compiled(true, ipus), inlined = compiled(false, ipus);
    for (int ipu = 0; ipu < ipus; ++ipu) {
      EXPECT_EQ(kept->ipus.at(ipu).subroutines.size(), 2) << program::print(*kept);
      EXPECT_TRUE(inlined->ipus.at(ipu).subroutines.empty());
      EXPECT_LT(kept->ipus.at(ipu).instructions.size(), inlined->ipus.at(ipu).instructions.size());
    }
    const std::vector<float> want = run(inlined, 1);
    for (int threads : {1, 2, 8}) {
      const std::vector<float> got = run(kept, threads);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i])) << i << ", " << threads;
    }
  }
}

TEST(CalledLayers, GiveTheNumbersOfTheInterpreter) {
  for (int ipus : {1, 2})
    testing_oracle::compare(*step(true, ipus), *compiled(true, ipus), 1e-4, 0.25, {1, 2, 8});
}

}  // namespace
}  // namespace ipu::frontends
