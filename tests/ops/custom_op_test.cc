// Operations from a user's shared library: loaded, typed, run by the interpreter and on the emulator,
// differentiated; and libraries that are refused.
#include "ops/custom/custom_op.h"

#include <gtest/gtest.h>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "ir/builder.h"
#include "ir/text/text.h"
#include "ops/definition/build.h"
#include "ops/definition/gradient_builder.h"
#include "ops/definition/work.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "support/error.h"
#include "tests/custom_op_libraries.h"
#include "tests/thrown.h"

namespace ipu::ops {
namespace {

const std::string kExample = custom_op_library("custom_ops_example");
std::string broken(int kind) { return custom_op_library("custom_ops_broken" + std::to_string(kind)); }

// Runs before the library is loaded by any other test of this file: names sort first among TESTs of a suite
// by order of definition.
TEST(CustomOps, are_opaque_until_their_library_is_loaded) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(graph @f(%x: f32[2]) -> f32[2] {
  %y = never.loaded.op(%x) {depth=3} : f32[2]
  return %y
}
)");
  EXPECT_NO_THROW(ops::verify(*module, ir::Form::kAuthored));
  EXPECT_EQ(ir::print(*ir::parse(ir::print(*module))), ir::print(*module));
  EXPECT_NE(message_of([&] {
              Interpreter(*module).run(*module->find_graph("f"), {{{DType::kF32, {2}}, {1, 2}}});
            }).find("unknown operation [IPU-E407]: 'never.loaded.op' has no definition and cannot run."),
            std::string::npos);
}

TEST(CustomOps, load_once_and_are_known_by_their_full_names) {
  const std::vector<std::string> names{"test.ops.cube", "test.ops.cube_gradient", "test.ops.halves.v2"};
  EXPECT_EQ(load_custom_ops(kExample), names);
  EXPECT_EQ(load_custom_ops(kExample), names);
  const OpDef* cube = find_op("test.ops.cube");
  ASSERT_NE(cube, nullptr);
  EXPECT_EQ(cube->doc, "scale * x * x * x.");
  EXPECT_TRUE(cube->has(kMayReuseFirstOperand));
  EXPECT_EQ(custom_ops().size(), 3u);
  for (const OpDef* def : all_ops()) EXPECT_NE(def->family, "custom");
}

std::unique_ptr<ir::Module> cube_module() {
  load_custom_ops(kExample);
  return ir::parse(R"(stream @x: f32[5]
stream @y: f32[5] {direction="device_to_host"}
stream @low: f32[2] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[5]
  %y = test.ops.cube(%x) {scale=2.0} : f32[5]
  host_store(%y) {stream=@y}
  %four = slice(%y) {sizes=[4], starts=[1], steps=[1]} : f32[4]
  %low, %high = test.ops.halves.v2(%four) : f32[2], f32[2]
  host_store(%low) {stream=@low}
  return
}
)");
}

TEST(CustomOps, compute_in_the_interpreter) {
  std::unique_ptr<ir::Module> module = cube_module();
  ops::verify(*module, ir::Form::kFunctional);
  Interpreter interpreter(*module);
  interpreter.streams["x"] = {{{DType::kF32, {5}}, {-1, 0, 1, 2, 3}}};
  interpreter.run_entry_point("main");
  EXPECT_EQ(interpreter.streams["y"][0].values, (std::vector<double>{-2, 0, 2, 16, 54}));
  EXPECT_EQ(interpreter.streams["low"][0].values, (std::vector<double>{0, 2}));
}

TEST(CustomOps, compute_on_the_emulator_by_their_own_kernel) {
  std::unique_ptr<ir::Module> module = cube_module();
  executable::CompileOptions options;
  executable::Executable executable = executable::compile(*module, target::find_system("pod16"), options);
  int steps = 0;
  for (const program::Instruction& step : executable.program->ipus[0].instructions)
    steps += step.kernel == "custom";
  EXPECT_EQ(steps, 2);
  for (int threads : {1, 2}) {
    emulator::EngineOptions engine_options;
    engine_options.threads = threads;
    emulator::Engine engine(executable.program, engine_options);
    float x[5] = {-1, 0, 1, 2, 3}, y[5] = {}, low[2] = {};
    std::vector<emulator::StreamBinding> bindings{{reinterpret_cast<std::byte*>(x), 1},
                                                  {reinterpret_cast<std::byte*>(y), 1},
                                                  {reinterpret_cast<std::byte*>(low), 1}};
    engine.run(bindings);
    EXPECT_EQ(std::vector<float>(y, y + 5), (std::vector<float>{-2, 0, 2, 16, 54}));
    EXPECT_EQ(std::vector<float>(low, low + 2), (std::vector<float>{0, 2}));
  }
}

TEST(CustomOps, are_differentiated_by_the_operation_they_name) {
  load_custom_ops(kExample);
  ir::Module module;
  ir::Graph* graph = module.add_graph("sample");
  ir::Value* x = graph->add_input({DType::kF32, {2}}, "x");
  ir::Value* dy = graph->add_input({DType::kF32, {2}}, "dy");
  ir::Builder builder(graph);
  ir::Value* y = build(builder, "test.ops.cube", {x}, {{"scale", 2.0}});
  GradientBuilder g(*y->producer(), {dy}, builder, [](ir::Value* value) { return value; });
  get_op("test.ops.cube").gradient(g);
  graph->append_output(g.gradients()[0]);
  EXPECT_EQ(Interpreter(module)
                .run(*graph, {{{DType::kF32, {2}}, {1, 2}}, {{DType::kF32, {2}}, {1, 10}}})[0]
                .values,
            (std::vector<double>{6, 240}));
  EXPECT_EQ(get_op("test.ops.halves.v2").gradient_kind, GradientKind::kRefused);
  EXPECT_EQ(get_op("test.ops.halves.v2").gradient_refusal, "halves are for looking only");
  const OpWork work = work_of(*y->producer());
  EXPECT_FALSE(work.is_guess);
  EXPECT_EQ(std::get<target::PassWork>(work.phases.at(0).form).elements, 6);
}

TEST(CustomOps, refuse_operands_in_the_words_of_their_shape_function) {
  load_custom_ops(kExample);
  ir::Module module;
  ir::Graph* graph = module.add_graph("f");
  ir::Builder builder(graph);
  ir::Value* odd = graph->add_input({DType::kF32, {3}}, "x");
  ir::Value* integers = graph->add_input({DType::kI32, {4}}, "x");
  EXPECT_EQ(message_of([&] { build(builder, "test.ops.halves.v2", {odd}); }),
            "operands do not fit [IPU-E201]: the first dimension must be even.\n  in: test.ops.halves.v2(x: "
            "f32[3])");
  EXPECT_EQ(message_of([&] { build(builder, "test.ops.cube", {integers}); }),
            "dtype mismatch [IPU-E201]: operand 'x' of test.ops.cube is i32; allowed are f32.\n  in: "
            "test.ops.cube(x: i32[4])");
  EXPECT_EQ(
      message_of([&] {
        build(builder, "test.ops.cube", {odd}, {{"scale", std::string("two")}});
      }),
      "attribute mismatch [IPU-E201]: 'scale' of test.ops.cube is of another kind than its default.\n  in: "
      "test.ops.cube(x: f32[3])");
}

TEST(CustomOps, broken_libraries_are_refused_whole) {
  auto refusal = [](int kind) { return message_of([kind] { load_custom_ops(broken(kind)); }); };
  const std::string begin = "custom operations not loaded [IPU-E501]: ";
  EXPECT_EQ(refusal(1), begin + broken(1) + " has an entry of another size.");
  EXPECT_EQ(refusal(2), begin + broken(2) + " has an operation without a domain, name and version.");
  EXPECT_EQ(refusal(3),
            begin + broken(3) + " has no shape function or no kernel for 'test.broken.identity'.");
  EXPECT_EQ(refusal(4),
            begin + broken(4) +
                " names the gradient operation 'test.broken.missing' of 'test.broken.identity', which does "
                "not exist.");
  EXPECT_EQ(
      refusal(5),
      begin + broken(5) + " is made for version 99 of ipu/custom_op.h, this is version 1; compile it again.");
  EXPECT_EQ(find_op("test.broken.identity"), nullptr);
}

TEST(CustomOps, what_is_no_library_is_refused) {
  EXPECT_EQ(message_of([] {
              load_custom_ops("/no/such/library.so");
            }).find("custom operations not loaded [IPU-E501]: /no/such/library.so cannot be opened: "),
            0u);
}

}  // namespace
}  // namespace ipu::ops
