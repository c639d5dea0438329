// Random models on random plans: whatever the blocks, IPUs and schedule, the program gives the numbers of the
// step as built.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "frontends/common/step_builder.h"
#include "ir/builder.h"
#include "ir/text/text.h"
#include "ops/definition/build.h"
#include "ops/interpreter/interpreter.h"
#include "passes/pass.h"

namespace ipu::frontends {
namespace {

using ir::Value;
using Results = std::map<std::string, std::vector<double>>;

constexpr int64_t kDeviceIterations = 2;

struct Model {
  ir::Module module;
  ForwardGraph forward;
  StepOptions options;
  passes::HostLimits host;
};

// Values are 3 x 3. Blocks come in order of capture; IPUs are free, so stages may share one or come back to
// one.
void make(Model& model, unsigned number, bool training) {
  std::mt19937 random(number);
  auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  ir::Graph* graph = model.module.add_graph("forward");
  model.forward.graph = graph;
  const ir::Type type{DType::kF32, {3, 3}};
  auto input = [&](ForwardGraph::Input::Kind kind, const std::string& name, bool trainable) {
    model.forward.inputs.push_back({kind, name, DType::kF32, trainable});
    return graph->add_input(type, name);
  };
  auto output = [&](ForwardGraph::Output::Kind kind, const std::string& name, Value* value) {
    graph->append_output(value);
    model.forward.outputs.push_back({kind, name, DType::kF32, ir::OutputMode::kAll, 1});
  };
  using In = ForwardGraph::Input::Kind;
  using Out = ForwardGraph::Output::Kind;
  std::vector<Value*> parameters, values;
  for (int i = 0; i < 4; ++i) parameters.push_back(input(In::kVariable, "w" + std::to_string(i), i != 3));
  Value* buffer = input(In::kVariable, "buffer", false);
  for (int i = 0; i < 2; ++i) values.push_back(input(In::kHost, "x" + std::to_string(i), false));
  Value* seed = graph->add_input({DType::kU32, {2}}, "seed");
  model.forward.inputs.push_back({In::kSeed, "", DType::kU32, false});

  const size_t blocks = 1 + pick(4);
  for (size_t block = 0; block < blocks; ++block)
    model.options.places["b" + std::to_string(block)] = {static_cast<int>(block), static_cast<int>(pick(3))};
  ir::Builder builder(graph);
  const size_t ops_per_block = 3;
  for (size_t block = 0; block < blocks; ++block) {
    builder.settings.block = "b" + std::to_string(block);
    for (size_t i = 0; i < ops_per_block; ++i) {
      Value* a = values[pick(values.size())];
      Value* b = pick(3) != 0 ? parameters[pick(parameters.size())] : values[pick(values.size())];
      Value* made = nullptr;
      switch (pick(7)) {
        case 0:
          made = ops::build(builder, "matmul", {a, b});
          break;
        case 1:
          made = ops::build(builder, "add", {a, b});
          break;
        case 2:
          made = ops::build(builder, "mul", {a, b});
          break;
        case 3:
          made = ops::build(builder, "tanh", {a});
          break;
        case 4:
          made = ops::build(builder, "sub", {b, a});
          break;
        case 5:
          made = ops::build(builder, "mul", {a, builder.scalar(DType::kF32, 0.5)});
          break;
        case 6:
          made = ops::build(builder, "dropout", {a, seed},
                            {{"p", 0.25}, {"stream_id", static_cast<int64_t>(values.size())}});
          break;
      }
      values.push_back(made);
    }
    if (block == blocks / 2) {
      Value* half = builder.scalar(DType::kF32, 0.5);
      Value* next = ops::build(builder, "add", {ops::build(builder, "mul", {buffer, half}), values.back()});
      values.push_back(ops::build(builder, "tanh", {next}));
      output(Out::kState, "buffer", next);
    }
  }
  // All parameters reach the loss, through the last block.
  Value* sum = ops::build(builder, "tanh", {values.back()});
  for (Value* parameter : parameters)
    sum = ops::build(builder, "add", {sum, ops::build(builder, "mul", {sum, parameter})});
  model.options.loss = ops::build(builder, "reduce_mean", {ops::build(builder, "mul", {sum, sum})},
                                  {{"dims", std::vector<int64_t>{0, 1}}, {"keep_dims", false}});
  output(Out::kHost, "loss", model.options.loss);
  output(Out::kHost, "early", values[3]);

  StepOptions& options = model.options;
  options.schedule = pick(3) == 0 ? Schedule::kSharded : Schedule::kPipelined;
  options.training = training;
  options.device_iterations = training ? kDeviceIterations : 10;
  options.accumulation = training ? 9 + static_cast<int64_t>(pick(3)) : 1;
  options.optimizer.kind = static_cast<optimizers::Kind>(pick(9));
  const bool clips = options.optimizer.kind <= optimizers::Kind::kAdamWNoBias && pick(2) == 0;
  if (clips) options.optimizer.max_grad_norm = 0.5;
  optimizers::Group group;  // eps is large so that rounding does not decide the sign of a direction
  group.hyper = {{"lr", {0.05, pick(2) == 0}}, {"momentum", {0.9, true}},       {"weight_decay", {0.1, true}},
                 {"beta1", {0.9, true}},       {"beta2", {0.95, true}},         {"alpha", {0.9, true}},
                 {"eps", {0.1, true}},         {"max_weight_norm", {2.0, true}}};
  options.optimizer.groups = {group};
  for (int i = 0; i < 3; ++i) options.optimizer.group_of["w" + std::to_string(i)] = 0;
  options.recomputation = ir::recomputation_mode(static_cast<int64_t>(pick(5)));
  build_step(model.forward, options);
  if (pick(2) == 0) model.host.recomputation = passes::HostRecomputation::kAlways;
}

Results run(const ir::Module& module, const StepOptions& options, unsigned seed) {
  std::mt19937 random(seed);
  auto tensor = [&] {
    std::vector<double> values(9);
    for (double& value : values) value = std::uniform_real_distribution<double>(-1, 1)(random);
    return ops::ReferenceTensor{{DType::kF32, {3, 3}}, values};
  };
  ops::Interpreter interpreter(module, ops::Arithmetic::kF64);
  for (const std::string name : {"w0", "w1", "w2", "w3", "buffer"}) interpreter.variables[name] = tensor();
  for (int run = 0; run < 2; ++run) {
    for (int64_t i = 0; i < options.device_iterations * options.accumulation; ++i)
      for (const std::string name : {"x0", "x1"}) interpreter.streams[name].push_back(tensor());
    interpreter.streams[kSeedStream] = {{{DType::kU32, {2}}, {42.0, static_cast<double>(run)}}};
    interpreter.streams["optimizer.0.lr"] = {{{DType::kF32, {}}, {0.05}}};
    interpreter.run_entry_point("main");
  }
  Results results;
  for (const auto& [name, variable] : interpreter.variables) results[name] = variable.values;
  for (const std::string name : {"loss", "early"})
    for (const ops::ReferenceTensor& element : interpreter.streams[name])
      results[name].insert(results[name].end(), element.values.begin(), element.values.end());
  return results;
}

TEST(RandomStep, OptimizedProgramsGiveTheNumbersOfTheStepAsBuilt) {
  for (unsigned seed = 0; seed < 60; ++seed)
    for (bool training : {true, false}) {
      Model built, optimized;
      make(built, seed, training);
      make(optimized, seed, training);
      SCOPED_TRACE("seed " + std::to_string(seed) + (training ? ", training" : ", inference"));
      const Results expected = run(built.module, built.options, seed);
      passes::PassContext context;
      context.host = optimized.host;
      passes::Forks forks;
      context.forks = &forks;
      passes::run_pipeline(optimized.module, passes::named_pipelines().at("default"), context,
                           passes::Verify::kEachPass);
      ir::Module* const machine = forks.at("machine").get();
      passes::run_fork("machine", *machine, context, passes::Verify::kEachPass);
      for (const ir::Module* made : {&std::as_const(optimized.module), &std::as_const(*machine)}) {
        const Results results = run(*made, optimized.options, seed);
        for (const auto& [name, values] : expected) {
          ASSERT_EQ(results.at(name).size(), values.size()) << name;
          for (size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(results.at(name)[i], values[i], 1e-7 * (1 + std::abs(values[i])))
                << name << " " << i << (made == machine ? " of the machine form\n" : "\n")
                << ir::print(*made);
        }
      }
    }
}

// The same through lowering, on the emulator: queues of every plan must be long enough and in order.
TEST(RandomStep, TheEmulatorGivesTheNumbersOfTheInterpreter) {
  for (unsigned seed = 0; seed < 30; ++seed)
    for (bool training : {true, false}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + (training ? ", training" : ", inference"));
      Model built, compiled;
      make(built, seed, training);
      make(compiled, seed, training);
      const Results expected = run(built.module, built.options, seed);
      executable::CompileOptions options;
      options.auto_round_num_ipus = true;
      options.host = compiled.host;
      const executable::Executable executable =
          executable::compile(compiled.module, target::find_system("pod16"), options);
      emulator::Engine engine(executable.program, emulator::EngineOptions{.threads = 2});

      std::mt19937 random(seed);
      auto fill = [&](float* values) {
        for (int i = 0; i < 9; ++i)
          values[i] = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
      };
      const auto& variables = executable.program->variables;
      auto index_of = [&](const auto& table, const std::string& name) {
        for (size_t i = 0; i < table.size(); ++i)
          if (table[i].name == name) return static_cast<int>(i);
        return -1;
      };
      for (const std::string name : {"w0", "w1", "w2", "w3", "buffer"}) {
        float values[9];
        fill(values);
        if (index_of(variables, name) >= 0)
          engine.write_variable(index_of(variables, name), reinterpret_cast<const std::byte*>(values));
      }
      const int64_t elements = compiled.options.device_iterations * compiled.options.accumulation;
      Results results;
      for (int run = 0; run < 2; ++run) {
        std::map<std::string, std::vector<float>> host;
        for (const char* name : {"x0", "x1", "early"}) host[name].resize(static_cast<size_t>(elements) * 9);
        host["loss"].resize(static_cast<size_t>(elements));
        host["optimizer.0.lr"] = {0.05f};
        host[kSeedStream] = {std::bit_cast<float>(uint32_t{42}),
                             std::bit_cast<float>(static_cast<uint32_t>(run))};
        for (int64_t i = 0; i < elements; ++i)
          for (const char* name : {"x0", "x1"}) fill(&host[name][static_cast<size_t>(i) * 9]);
        std::vector<emulator::StreamBinding> bindings;
        for (const program::Stream& stream : executable.program->streams) {
          std::vector<float>& values = host.at(stream.name);
          bindings.push_back({reinterpret_cast<std::byte*>(values.data()),
                              stream.mode == program::StreamMode::kConstantInput ? 1 : elements});
        }
        engine.run(bindings);
        for (const char* name : {"loss", "early"})
          results[name].insert(results[name].end(), host[name].begin(), host[name].end());
      }
      for (const std::string name : {"w0", "w1", "w2", "w3", "buffer"}) {
        if (index_of(variables, name) < 0) continue;
        float values[9];
        engine.read_variable(index_of(variables, name), reinterpret_cast<std::byte*>(values));
        results[name].assign(values, values + 9);
      }
      for (const auto& [name, values] : results)
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], expected.at(name)[i], 2e-4 * (1 + std::abs(expected.at(name)[i])))
              << name << " " << i;
    }
}

}  // namespace
}  // namespace ipu::frontends
