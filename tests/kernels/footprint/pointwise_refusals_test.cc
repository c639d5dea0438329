// Steps that a hostile program may hold, refused by the statement of kernel "pointwise".
#include <gtest/gtest.h>

#include "tests/kernels/footprint/accepted_steps.h"
#include "tests/layouts.h"

namespace ipu::kernels {
namespace {

using namespace kernel_tests;

// ---- pointwise

TEST(FootprintOfPointwise, AnOperandThatNobodyLoadsIsNotRead) {
  KernelStep step = sum();
  step.operands.push_back({});
  EXPECT_EQ(footprint(step).operands, (std::vector<Extent>{{0, 80}, {0, 16}, {}}));
}
TEST(FootprintOfPointwise, AnAbsentOperandThatIsLoadedIsStatedAsRead) {
  KernelStep step = sum();
  step.operands[1] = {};  // the step is refused by whoever has no memory for it
  EXPECT_EQ(footprint(step).operands[1], (Extent{0, 4}));
}
TEST(FootprintOfPointwise, RefusesALoadOfAnOperandThatDoesNotExist) {
  for (int32_t operand : {2, INT32_MAX, -1})
    expect_refused(
        sum(),
        [&](KernelStep& s) {
          PointwiseProgram program = sum_of_two();
          program.code[1].immediate = operand;
          s.attributes = program.to_attributes();
        },
        "");
}
TEST(FootprintOfPointwise, RefusesRegistersMadeLaterAndOpcodesOutOfRange) {
  for (auto [word, value] : {std::pair<size_t, int64_t>{11, 2},
                             {11, 3},
                             {12, -1},
                             {12, kHuge},
                             {10, -1},
                             {10, static_cast<int64_t>(kOpCodeCount)},
                             {10, 255},
                             {10, kHuge}})
    expect_refused(
        sum(),
        [&, w = word, v = value](KernelStep& s) {
          Integers code = s.attributes.integers("code");
          code[w] = v;
          s.attributes.set("code", code);
        },
        "invalid pointwise program");
  for (int64_t output : {int64_t{3}, int64_t{-1}, kHuge})
    expect_refused(
        sum(), [&](KernelStep& s) { s.attributes.set("outputs", Integers{output}); }, "output");
}
TEST(FootprintOfPointwise, RefusesListsOfOtherLengths) {
  expect_refused(
      sum(), [](KernelStep& s) { s.attributes.set("values", std::vector<double>{0.0}); }, "five words");
  expect_refused(
      sum(),
      [](KernelStep& s) {
        s.attributes.set("code", Integers{1, 2, 3});
      },
      "five words");
  for (const char* name : {"code", "values", "outputs"})
    expect_refused(
        sum(), [&](KernelStep& s) { s.attributes.erase(name); }, "missing");
}
// More than 16 bits count: views, registers and slots would wrap.
TEST(FootprintOfPointwise, RefusesMoreInstructionsOrOutputsThanItsFieldsCount) {
  expect_refused(
      sum(),
      [](KernelStep& s) {
        PointwiseProgram program;
        program.code.assign(40000, {.code = OpCode::kLoad, .immediate = 0});
        program.outputs = {39999};
        s.attributes = program.to_attributes();
      },
      "4096");
  expect_refused(
      sum(),
      [](KernelStep& s) {
        s.attributes.set("outputs", Integers(70000, 2));
        s.results.assign(70000, s.results[0]);
      },
      "4096");
}
TEST(FootprintOfPointwise, RefusesOperandsThatDoNotBroadcast) {
  for (const Shape& shape : {Shape{5}, {5, 4, 1}, {6, 4}, {1, 1, 1}})
    expect_refused(
        sum(), [&](KernelStep& s) { s.operands[1] = f32(shape); }, "do not fit");
}
TEST(FootprintOfPointwise, RefusesPanelsAmongOtherLayouts) {
  KernelStep step = pointwise(sum_of_two(), {packed({5, 70}), packed({5, 70})}, packed({5, 70}));
  expect_refused(
      step,
      [](KernelStep& s) {
        s.operands[1] = f32({5, 70});
      },
      "do not fit");
  expect_refused(
      step,
      [](KernelStep& s) {
        s.operands[1] = packed({4, 70});
      },
      "do not fit");
  expect_refused(
      step,
      [](KernelStep& s) {
        s.results[0] = f32({5, 70});
      },
      "do not fit");
}
TEST(FootprintOfPointwise, RefusesAnIndexAlongADimensionThatDoesNotExist) {
  PointwiseProgram program{{{.code = OpCode::kIota, .immediate = 1}}, {0}};
  expect_refused(
      pointwise(program, {}, i32({5, 4})), [](KernelStep& s) { s.results[0] = i32({5}); }, "do not fit");
  expect_refused(
      pointwise(program, {}, i32({5, 4})),
      [](KernelStep& s) {
        s.results[0] = packed({5, 4});
      },
      "do not fit");
}
TEST(FootprintOfPointwise, RefusesResultsThatDiffer) {
  KernelStep step = sum();
  step.results.push_back(step.results[0]);
  step.attributes.set("outputs", Integers{2, 0});
  expect_refused(
      step,
      [](KernelStep& s) {
        s.results[1] = f32({5, 5});
      },
      "do not fit");
  expect_refused(
      step, [](KernelStep& s) { s.results[1].layout = panels_for(s.results[1].shape); }, "do not fit");
}

}  // namespace
}  // namespace ipu::kernels
