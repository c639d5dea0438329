// Files with right checksums and hostile content, each made from a legal program by hand. Every one is
// refused before anything of it runs, in words that name the place.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/pointwise/program.h"
#include "ops/custom/custom_op.h"
#include "passes/pass.h"
#include "tests/custom_op_libraries.h"
#include "tests/executable/hostile_run.h"
#include "tests/executable/program_samples.h"
#include "tests/layouts.h"

namespace ipu::testing_hostile {
namespace {

using program::Instruction;
using program::IpuProgram;
using program::Opcode;
using program::Program;

// A program of one operation: loads, the operation, stores.
Sample one_op(std::string_view kind, std::vector<ir::Type> operands, Attributes attributes = {}) {
  ops::Sample sample;
  for (ir::Type& type : operands) sample.operands.emplace_back(std::move(type));
  sample.attributes = std::move(attributes);
  return sample_of(ops::get_op(kind), sample, std::string(kind));
}

ir::Type f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

IpuProgram& code(Program& program) { return program.ipus[0]; }
int find(const Program& program, const std::function<bool(const Instruction&)>& wanted) {
  const std::vector<Instruction>& steps = program.ipus[0].instructions;
  const auto at = std::find_if(steps.begin(), steps.end(), wanted);
  EXPECT_NE(at, steps.end()) << program::print(program);
  return static_cast<int>(at - steps.begin());
}
Instruction& step_of(Program& program, std::string_view kernel) {
  return code(program).instructions[find(program, [&](const Instruction& i) { return i.kernel == kernel; })];
}

// The legal program runs; the one that `attack` makes of it is refused, and the message names `place`.
void expect_refused(const Sample& sample, const std::function<void(Program&)>& attack,
                    const std::string& place) {
  HostileRun feed;
  const Verdict legal = feed(bytes_of(sample, sample.program, sample.signature));
  ASSERT_EQ(legal.outcome, Outcome::kRan) << legal.message;
  Program hostile = sample.program;
  attack(hostile);
  SCOPED_TRACE(program::print(hostile));
  const Verdict verdict = feed(bytes_of(sample, hostile, sample.signature));
  EXPECT_EQ(verdict.outcome, Outcome::kRefused);
  EXPECT_TRUE(verdict.code == ErrorCode::kFileCorrupt || verdict.code == ErrorCode::kInvalidProgram)
      << static_cast<int>(verdict.code);
  EXPECT_NE(verdict.message.find(place), std::string::npos) << verdict.message;
}

// --- memory of the user

TEST(Attacks, an_operand_behind_the_users_tensor) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) {
        Instruction& step = step_of(program, "pointwise");
        ASSERT_EQ(code(program).buffers[step.operands[0].buffer].storage, program::Storage::kExternal);
        step.operands[0].byte_offset = 64 << 10;
        code(program).buffers[step.operands[0].buffer].bytes = 1 << 20;
      },
      "instruction");
}

TEST(Attacks, a_result_in_the_users_input) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) {
        Instruction& step = step_of(program, "pointwise");
        step.results[0].buffer = step.operands[0].buffer;
      },
      "instruction 2");
}

TEST(Attacks, a_step_before_the_load_that_defines_its_operand) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) { std::swap(code(program).instructions[0], step_of(program, "pointwise")); },
      "instruction 0");
}

TEST(Attacks, more_loads_than_the_stream_has_elements) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) {
        std::vector<Instruction>& steps = code(program).instructions;
        const int load = find(program, [](const Instruction& i) { return i.opcode == Opcode::kStreamLoad; });
        steps.insert(steps.begin() + load, 40, steps[load]);
      },
      "input 0 has another size than its stream");
}

TEST(Attacks, more_stores_than_the_stream_has_elements) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) {
        std::vector<Instruction>& steps = code(program).instructions;
        const int store =
            find(program, [](const Instruction& i) { return i.opcode == Opcode::kStreamStore; });
        steps.insert(steps.begin() + store, 40, steps[store]);
      },
      "output 0 has another size than its stream");
}

TEST(Attacks, loops_with_more_trips_than_the_streams_have_elements) {
  for (int64_t trip : {int64_t{2}, int64_t{100'000}, int64_t{1} << 62})
    expect_refused(
        one_op("tanh", {f32({4})}),
        [&](Program& program) { put_in_loop(code(program), 0, code(program).instructions.size(), trip); },
        trip < int64_t{1} << 40 ? "has another size than its stream" : "size overflow");
}

// --- memory of the device

Attributes walk(int64_t offset, std::vector<int64_t> strides) {
  return {{"offset", offset}, {"strides", std::move(strides)}};
}

Sample transpose() { return one_op("transpose", {f32({3, 4})}, {{"perm", Shape{1, 0}}}); }

// A copy of the input by itself, so that it does not matter how lowering reads the transpose.
void copy_by(Program& program, const Attributes& attributes) {
  IpuProgram& ipu = code(program);
  Instruction step;
  step.kernel = "copy";
  step.attributes = attributes;
  step.operands = {ipu.instructions[0].results[0]};
  ipu.buffers.push_back({"copied", program::Storage::kArena, 48, ipu.arena_bytes, -1});
  ipu.arena_bytes += 64;
  step.results = {{static_cast<int>(ipu.buffers.size()) - 1, 0, TensorSpec::plain(DType::kF32, {4, 3})}};
  ipu.instructions.insert(ipu.instructions.begin() + 1, step);
}

TEST(Attacks, copies_that_leave_their_operand) {
  const Attributes attacks[] = {walk(12, {1, 4}),
                                walk(1 << 20, {1, 4}),
                                walk(-1, {1, 4}),
                                walk(-(int64_t{1} << 40), {1, 4}),
                                walk(0, {1, 5}),
                                walk(0, {1 << 20, 4}),
                                walk(0, {-1, 4}),
                                walk(0, {1, -4}),
                                walk(int64_t{1} << 62, {1, 4}),
                                walk(0, {int64_t{1} << 62, int64_t{1} << 62}),
                                walk(0, {1}),
                                {{"strides", std::string("none")}},
                                {{"offset", 0.5}, {"strides", std::vector<int64_t>{1, 4}}}};
  expect_refused(
      transpose(),
      [](Program& program) {
        copy_by(program, walk(1, {1, 4}));
      },
      "instruction 1");
  for (const Attributes& attributes : attacks)
    expect_refused(
        transpose(), [&](Program& program) { copy_by(program, attributes); }, "instruction 1");
}

TEST(Attacks, a_copy_without_operand_or_result) {
  for (bool result : {false, true})
    expect_refused(
        transpose(),
        [&](Program& program) {
          copy_by(program, walk(0, {1, 4}));
          (result ? code(program).instructions[1].results : code(program).instructions[1].operands).clear();
        },
        "instruction 1");
}

TEST(Attacks, pointwise_with_an_absent_operand) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) { step_of(program, "pointwise").operands[0].buffer = -1; }, "instruction 2");
}

// Attacks a step of every operation: by its strides the result needs one element, but a kernel would write all.
TEST(Attacks, a_result_of_stride_zero_at_the_end_of_the_arena) {
  HostileRun feed;
  int attacked = 0;
  for (const Sample& sample : all_samples(nullptr)) {
    Program hostile = sample.program;
    IpuProgram& ipu = code(hostile);
    std::vector<Instruction>& steps = ipu.instructions;
    const auto at = std::find_if(steps.begin(), steps.end(), [&](const Instruction& step) {
      return step.opcode == Opcode::kKernel && !step.results.empty() &&
             ipu.buffers[step.results[0].buffer].storage == program::Storage::kArena &&
             step.results[0].spec.layout == Layout::kPlain && step.results[0].spec.stored_bytes() > 4;
    });
    const bool is_straight =
        hostile.entry_points.size() == 1 && ipu.subroutines.empty() &&
        std::none_of(steps.begin(), at, [](const Instruction& step) { return step.target >= 0; });
    if (hostile.ipus.size() > 1 || at == steps.end() || !is_straight) continue;
    SCOPED_TRACE(sample.name);
    const auto n = static_cast<size_t>(at - steps.begin());
    program::Operand& result = at->results[0];
    const int64_t bytes = size_in_bytes(result.spec.dtype);
    std::fill(result.spec.strides.begin(), result.spec.strides.end(), 0);
    result.buffer = static_cast<int>(ipu.buffers.size());
    ipu.buffers.push_back({"small", program::Storage::kArena, bytes, ipu.arena_bytes, -1});
    ipu.arena_bytes += bytes;
    steps.resize(n + 1);
    const Verdict verdict = feed(bytes_of(sample, hostile, sample.signature));
    EXPECT_EQ(verdict.outcome, Outcome::kRefused) << program::print(hostile);
    EXPECT_NE(verdict.message.find("instruction " + std::to_string(n)), std::string::npos) << verdict.message;
    ++attacked;
  }
  EXPECT_GT(attacked, 100);
}

TEST(Attacks, a_pooling_window_whose_product_does_not_fit) {
  for (const char* kind : {"max_pool", "avg_pool"})
    for (const std::vector<int64_t>& window : {std::vector<int64_t>{int64_t{1} << 32, int64_t{1} << 32},
                                               {int64_t{1} << 31, (int64_t{1} << 33) + 1},
                                               {3037000500, 3037000500},
                                               {0, 2},
                                               {-2, 2},
                                               {2}}) {
      Attributes legal{{"kernel", Shape{2, 2}},
                       {"strides", Shape{2, 2}},
                       {"padding_low", Shape{0, 0}},
                       {"padding_high", Shape{0, 0}}};
      if (std::string_view(kind) == "max_pool") legal.set("dilations", Shape{1, 1});
      expect_refused(
          one_op(kind, {f32({1, 2, 4, 4})}, legal),
          [&](Program& program) {
            Instruction& step = step_of(program, kind);
            step.attributes.set("kernel", window);
            // Padding to the same, so that the type rule may find the shape of the result right.
            if (window.size() == 2 && window[0] > 4) {
              step.attributes.set("padding_low", std::vector<int64_t>{window[0] / 2, window[1] / 2});
              step.attributes.set("padding_high", std::vector<int64_t>{window[0] / 2, window[1] / 2});
            }
          },
          std::string("(kernel ") + kind + ")");
    }
}

TEST(Attacks, a_product_with_an_operand_in_another_layout) {
  // The type rule sees a packed matrix transposed, and the kernel as it lies: more columns than the result
  // has.
  expect_refused(
      one_op("matmul", {f32({2, 1000}), f32({1000, 1})}),
      [](Program& program) {
        Instruction& step = step_of(program, "matmul");
        TensorSpec packed = TensorSpec::plain(DType::kF32, {1, 1000});
        packed.layout = panels_for(packed.shape);
        step.operands[1].spec = packed;
        const int64_t bytes = packed.stored_bytes();
        program.constants.push_back(std::make_shared<const ConstantData>(
            ConstantData{DType::kF32, {bytes / 4}, std::vector<std::byte>(static_cast<size_t>(bytes))}));
        IpuProgram& ipu = code(program);
        ipu.buffers.push_back({"packed", program::Storage::kConstant, bytes, 0,
                               static_cast<int>(program.constants.size()) - 1});
        step.operands[1].buffer = static_cast<int>(ipu.buffers.size()) - 1;
      },
      "(kernel matmul)");
}

TEST(Attacks, a_product_with_an_operand_of_another_type) {
  for (size_t operand : {0, 1})
    expect_refused(
        one_op("matmul", {f32({2, 30}), f32({30, 5})}),
        [&](Program& program) { step_of(program, "matmul").operands[operand].spec.dtype = DType::kF16; },
        "(kernel matmul)");
}

TEST(Attacks, forty_thousand_loads_in_pointwise) {
  expect_refused(
      one_op("tanh", {f32({4})}),
      [](Program& program) {
        kernels::PointwiseProgram many;
        for (int i = 0; i < 40'000; ++i) many.code.push_back({kernels::OpCode::kLoad});
        for (int i = 0; i < 39'999; ++i)
          many.code.push_back({kernels::OpCode::kAddF, i == 0 ? 0 : 40'000 + i - 1, i + 1});
        many.outputs = {static_cast<int32_t>(many.code.size()) - 1};
        step_of(program, "pointwise").attributes = many.to_attributes();
      },
      "instruction 2");
}

// --- variables

// v = v + x, with v stored by the device.
Sample with_variable(Layout layout = Layout::kPlain) {
  ir::Module module;
  ir::Graph* main = module.add_graph("main");
  module.entry_points["main"] = "main";
  ir::Builder b(main);
  b.settings.ipu = 0;
  ir::Variable variable;
  variable.name = "v";
  variable.type = f32({4, 6});
  variable.ipu = 0;
  ir::Variable& v = module.add_variable(variable);
  ir::Stream in, out;
  in.name = "x";
  out.name = "y";
  in.type = out.type = f32({4, 6});
  out.direction = ir::StreamDirection::kDeviceToHost;
  ir::Value* sum = ops::build(b, "add", {b.read_variable(v), b.host_load(module.add_stream(in))});
  b.assign_variable(v, sum);
  b.host_store(module.add_stream(out), sum);
  Sample sample = sample_of("variable", lowering::lower(module, {}));
  sample.program.variables[0].spec.layout = layout;
  return sample;
}

TEST(Attacks, a_variable_of_another_shape_for_the_host) {
  for (const Shape& shape : {Shape{400, 600}, Shape{4, 7}, Shape{1}, Shape{0}, Shape{int64_t{1} << 40},
                             Shape{-4, -6}, Shape{int64_t{1} << 62, 4}})
    expect_refused(
        with_variable(), [&](Program& program) { program.variables[0].shape = shape; }, "variable v");
}

TEST(Attacks, a_variable_whose_initial_value_has_another_size) {
  for (size_t floats : {0, 4, 23, 400})
    expect_refused(
        with_variable(),
        [&](Program& program) {
          program.constants.push_back(std::make_shared<const ConstantData>(
              ConstantData{DType::kF32, {static_cast<int64_t>(floats)}, std::vector<std::byte>(4 * floats)}));
          program.variables[0].constant = static_cast<int>(program.constants.size()) - 1;
        },
        "variable v");
}

// --- users' operations

TEST(Attacks, custom_operations_with_any_number_of_operands) {
  ops::load_custom_ops(custom_op_library("custom_ops_example"));
  const Sample sample = one_op("test.ops.cube", {f32({5})});
  for (size_t count : {0, 3, 65, 4000})
    expect_refused(
        sample,
        [&](Program& program) {
          auto& operands = step_of(program, "custom").operands;
          const program::Operand one = operands[0];
          operands.assign(count, one);
        },
        "(kernel custom)");
  for (size_t count : {0, 5, 65, 4000})
    expect_refused(
        sample,
        [&](Program& program) {
          auto& results = step_of(program, "custom").results;
          const program::Operand one = results[0];
          results.assign(count, one);
        },
        "(kernel custom)");
}

}  // namespace
}  // namespace ipu::testing_hostile
