// Whole training and inference steps through compile(): the engine's numbers against the interpreter's on the
// module before any pass, on one and several IPUs.
#include "executable/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "support/error.h"
#include "tests/executable/step_samples.h"
#include "tests/lowering/oracle.h"

namespace ipu::executable {
namespace {

using namespace step_samples;

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

TEST(Compile, InferenceOnOneIpuHasTheNumbersOfTheInterpreter) {
  check({.training = false, .stages = 1, .device_iterations = 1});
  check({.training = false, .stages = 1, .device_iterations = 3});
}

TEST(Compile, TrainingOnOneIpuHasTheNumbersOfTheInterpreter) {
  for (int64_t di : {1, 3})
    for (int64_t ga : {1, 2}) check({.stages = 1, .device_iterations = di, .accumulation = ga});
}

TEST(Compile, ShardedStepsHaveTheNumbersOfTheInterpreter) {
  for (int stages : {2, 3, 4})
    for (int64_t di : {1, 3}) {
      check({.stages = stages, .pipelined = false, .device_iterations = di, .accumulation = 2});
      check({.training = false, .stages = stages, .pipelined = false, .device_iterations = di});
    }
}

TEST(Compile, PipelinedInferenceHasTheNumbersOfTheInterpreter) {
  for (int stages : {2, 4})
    for (int64_t di : {4, 9}) check({.training = false, .stages = stages, .device_iterations = di});
}

TEST(Compile, PipelinedTrainingHasTheNumbersOfTheInterpreter) {
  for (int stages : {2, 4})
    for (int64_t ga : {2 * stages - 1, 4 * stages - 2})
      for (int64_t di : {1, 3}) check({.stages = stages, .device_iterations = di, .accumulation = ga});
}

TEST(Compile, ConvolutionsHaveTheNumbersOfTheInterpreterInEveryPlacement) {
  check({.convolutions = true, .training = false});
  check({.convolutions = true, .training = false, .stages = 2, .device_iterations = 3});
  check({.convolutions = true, .device_iterations = 2, .accumulation = 2});
  check({.convolutions = true, .stages = 3, .pipelined = false, .accumulation = 2});
  check({.convolutions = true, .stages = 2, .device_iterations = 2, .accumulation = 4});
  check({.convolutions = true, .stages = 4, .accumulation = 9});
}

TEST(Compile, TrainedWeightsAreStoredInPanelsAndActivationsChannelsLast) {
  Case c{.convolutions = true, .accumulation = 2};
  constexpr std::string_view kWeights[] = {"w1", "w2", "w3", "w4"};
  auto module = make_step(c);
  Executable executable = compile_case(*module, c);
  for (const program::Variable& variable : executable.program->variables) {
    const std::string& name = variable.name;  // of convolutions (w1, w2) and linear layers, and their state
    const bool panels = std::any_of(std::begin(kWeights), std::end(kWeights),
                                    [&](std::string_view weight) { return name.ends_with(weight); });
    EXPECT_EQ(variable.spec.layout.is_blocked(), panels) << variable.name;
  }
  int channels_last = 0;
  for (const program::Instruction& step : executable.program->ipus[0].instructions)
    for (const program::Operand& result : step.results)
      channels_last += result.spec.layout.is_channels_last();
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
    EXPECT_NE(error.message().find("one process can use"), std::string::npos) << error.message();
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
