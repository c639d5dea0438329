// The machine form of a program: the same on every computer, legal, and the same numbers as what the host runs.
#include "executable/machine_form.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "executable/file.h"
#include "lowering/lower.h"
#include "ops/verify.h"
#include "tests/executable/sample_file.h"
#include "tests/executable/step_samples.h"
#include "tests/lowering/oracle.h"
#include "tests/support/scoped_variable.h"
#include "tests/thrown.h"

namespace ipu::executable {
namespace {

using namespace step_samples;
using ir::RecomputationMode;

// One IPU, a pipeline that recomputes, sharded.
const std::vector<Case> kSteps = {
    {.accumulation = 2, .recomputation = RecomputationMode::kAll},
    {.stages = 3, .accumulation = 6, .recomputation = RecomputationMode::kPipeline},
    {.stages = 2, .pipelined = false, .accumulation = 2, .recomputation = RecomputationMode::kStandard},
    {.convolutions = true, .stages = 2, .accumulation = 4, .recomputation = RecomputationMode::kPipeline}};

Executable compiled_step(const Case& c) { return compile_case(*make_step(c), c); }

std::vector<std::byte> file_of(const Executable& executable) {
  const Signature none;
  ContainerWriter writer;
  add_executable(writer, executable, none);
  return writer.bytes();
}

TEST(MachineForm, DoesNotDependOnTheHost) {
  for (const Case& c : kSteps) {
    SCOPED_TRACE(std::to_string(c.stages) + " stages");
    ScopedVariable threads("POPTORCH_HOST_THREADS", "1");
    std::optional<ScopedVariable> wish(std::in_place, "POPTORCH_EXECUTE_RECOMPUTE", std::nullopt);
    std::vector<Executable> programs;
    for (const char* memory : {"0", "1e12"}) {
      ScopedVariable limit("POPTORCH_HOST_MEMORY", memory);
      programs.push_back(compiled_step(c));
    }
    wish.reset();
    for (const char* execute : {"0", "1"}) {
      ScopedVariable told("POPTORCH_EXECUTE_RECOMPUTE", execute);
      ScopedVariable more("POPTORCH_HOST_THREADS", "8");
      programs.push_back(compiled_step(c));
    }
    for (const Executable& other : programs) {
      EXPECT_EQ(other.machine_text(), programs[0].machine_text());
      for (const char* count : {"ops recomputed", "stash bytes", "stash bytes with recomputation"})
        EXPECT_EQ(other.statistics.counts.at(count), programs[0].statistics.counts.at(count)) << count;
    }
    EXPECT_GT(programs[0].statistics.counts.at("ops recomputed"), 0);
    // What the host runs does depend on it: with little memory as when told to, and otherwise as when told not to.
    EXPECT_EQ(programs[0].ir_text, programs[3].ir_text);
    EXPECT_EQ(programs[1].ir_text, programs[2].ir_text);
    EXPECT_NE(programs[0].ir_text, programs[1].ir_text);
    EXPECT_EQ(programs[0].statistics.counts.at("recomputation executed"), 1);
    EXPECT_EQ(programs[1].statistics.counts.at("recomputation executed"), 0);
  }
}

TEST(MachineForm, HasWholeOpsPlainLayoutsAndWhatThePlanSays) {
  const Case c{
      .convolutions = true, .stages = 2, .accumulation = 4, .recomputation = RecomputationMode::kPipeline};
  const Executable executable = compiled_step(c);
  EXPECT_NE(executable.ir_text.find(":acdb"), std::string::npos);
  EXPECT_NE(executable.ir_text.find("fused_pointwise"), std::string::npos);
  EXPECT_EQ(executable.ir_text.find("recompute=\"recompute\""), std::string::npos);
  const std::string& machine = executable.machine_text();
  EXPECT_EQ(machine.find(":acdb"), std::string::npos);
  EXPECT_EQ(machine.find("16a"), std::string::npos);
  // Elementwise ops stay single, but for what accumulates gradients and updates weights.
  for (const auto& graph : executable.machine().module().graphs())
    for (const auto& op : graph->ops())
      EXPECT_FALSE(op->is("fused_pointwise") && op->settings.context == ir::Context::kForward);
  EXPECT_NE(machine.find("recompute=\"recompute\""), std::string::npos);
  for (const char* kind : {"ring.push", "ring.pop", "max_pool", "cross_entropy", "ipu=1"})
    EXPECT_NE(machine.find(kind), std::string::npos) << kind;
}

TEST(MachineForm, KeepsACompoundThatTheHostTakesApart) {
  auto step = [] {
    Case c{.training = false};
    Network n(c);
    ir::Value *x = n.input("x", {2, 3}), *y = n.input("y", {2, 3});
    n.output("loss", n.op("mse_loss", {x, y}));
    return n.finish(nullptr);
  };
  std::unique_ptr<ir::Module> module = step();
  const Executable executable = compile_case(*module, {});
  EXPECT_EQ(executable.ir_text.find("mse_loss"), std::string::npos);
  EXPECT_NE(executable.machine_text().find("mse_loss"), std::string::npos);
}

// Lowered as it is, but for compounds without a kernel, it gives the numbers of the step before any pass.
TEST(MachineForm, GivesTheNumbersOfTheStepAsBuilt) {
  std::vector<Case> steps = kSteps;
  for (const Case& c : kSteps) {
    steps.push_back(c);
    steps.back().recomputation = RecomputationMode::kNone;
    steps.back().device_iterations = 2;
    if (!c.pipelined || c.stages == 1) continue;
    steps.push_back(c);
    steps.back().training = false;
    steps.back().device_iterations = 4;
    steps.back().accumulation = 1;
  }
  for (const Case& c : steps) {
    SCOPED_TRACE(std::to_string(c.stages) + " stages, convolutions " + std::to_string(c.convolutions) +
                 ", training " + std::to_string(c.training));
    const std::unique_ptr<ir::Module> before = make_step(c);
    const Executable executable = compiled_step(c);
    EXPECT_EQ(&executable.machine().module(), &executable.machine().module());  // made once
    const std::unique_ptr<ir::Module> machine = executable.machine().module().clone();
    EXPECT_EQ(print_for_reading(*machine), executable.machine_text());
    ops::verify(*machine, ir::Form::kFunctional);
    passes::run_pipeline(*machine, {"decompose"}, {}, passes::Verify::kEachPass);
    const program::Program lowered = lowering::lower(*machine, {});
    EXPECT_EQ(lowered.ipus.size(), executable.program->ipus.size());
    testing_oracle::compare(*before, lowered, 2e-5, 0.25, {1, 2});
  }
}

TEST(MachineForm, StaysWithTheExecutableInAFile) {
  for (const Case& c : kSteps) {
    const Executable executable = compiled_step(c);
    const std::vector<std::byte> bytes = file_of(executable);
    const Executable read = read_executable(Container::parse(bytes, "file"));
    EXPECT_EQ(read.machine_text(), executable.machine_text());
    EXPECT_EQ(print_for_reading(read.machine().module()), executable.machine_text());
    EXPECT_EQ(read.machine().memory(), executable.machine().memory());
    EXPECT_EQ(report::tile_memory(read.machine().module()), executable.machine().memory());
  }
}

// A large constant is known by its hash alone, in the text and in what is read back from it.
TEST(MachineForm, ReadsBackWithoutLargeConstants) {
  const Case c{.training = false};
  Network n(c);
  std::vector<float> table(300);
  std::iota(table.begin(), table.end(), 0.0F);
  Value* constant = n.builder().constant(ir::make_constant(DType::kF32, {300}, table.data()));
  n.output("sum", n.op("add", {n.input("x", {300}), constant}));
  std::unique_ptr<ir::Module> module = n.finish(nullptr);
  const Executable executable = compile_case(*module, c);
  const Executable read = read_executable(Container::parse(file_of(executable), "file"));
  EXPECT_NE(read.machine_text().find("dense<f32[300]: #"), std::string::npos);
  bool found = false;
  for (const auto& graph : read.machine().module().graphs())
    for (const auto& op : graph->ops())
      if (op->is(ir::kind::kConstant) && op->result()->type().shape == Shape{300})
        found = op->attributes.text("value").starts_with("#");
  EXPECT_TRUE(found);
  EXPECT_EQ(read.machine().memory()[0].constants, 1200);
}

TEST(MachineForm, OfADamagedFileIsRefusedWhenItIsAskedFor) {
  const Executable executable = compiled_step({});
  const Container container = Container::parse(file_of(executable), "file");
  auto with = [&](const std::string& section, const std::string& text) {
    return message_of([&] {
      read_executable(Container::parse(resealed(container, section, text), "file")).machine().module();
    });
  };
  EXPECT_EQ(
      with("machine", "grph"),
      "corrupt file [IPU-E501]: file: the machine form: parse error [IPU-E203]: machine:1:1: expected 'graph', "
      "'module', 'variable', 'stream', 'ring', 'remote_buffer' or 'entry' and found 'grph'. grph ^.");
  EXPECT_NE(with("machine", "graph @a() -> () { call() {callee=@a} return }").find("corrupt file"),
            std::string::npos);
  EXPECT_EQ(with("memory", R"([{"ipu":1,"values":-1}])"),
            "corrupt file [IPU-E501]: file: memory: a size is out of range.");
}

TEST(MachineForm, IsMissingInAFileThatDoesNotHaveIt) {
  Executable executable = compiled_step({});
  executable.machine_form = nullptr;
  EXPECT_EQ(
      message_of([&] { executable.machine_text(); }),
      "no machine form [IPU-E502]: the executable was compiled by another pipeline than 'default', or is of a "
      "file that an earlier version wrote.\n"
      "  try:      compile and save again with this version.");
}

}  // namespace
}  // namespace ipu::executable
