// Steps that a hostile program may hold, refused by the statements of kernels: what all kernels refuse, and
// data movement. Each is a small change of a step that is accepted.
#include <gtest/gtest.h>

#include "tests/kernels/footprint/accepted_steps.h"

namespace ipu::kernels {
namespace {

using namespace kernel_tests;

// ---- every kernel

TEST(FootprintOfAnyKernel, RefusesOtherNumbersOfOperandsAndResults) {
  for (const KernelStep& step : accepted_steps()) {
    expect_refused(
        step, [](KernelStep& s) { s.results.clear(); }, step.id == "pointwise" ? "" : "results");
    expect_refused(
        step, [](KernelStep& s) { s.results.push_back(s.results[0]); }, "");
    if (step.id == "concat" || step.id == "pointwise") continue;
    expect_refused(
        step, [](KernelStep& s) { s.operands.push_back(f32({})); }, "operands");
    if (!step.operands.empty())
      expect_refused(
          step, [](KernelStep& s) { s.operands.pop_back(); }, "operands");
  }
}

TEST(FootprintOfAnyKernel, RefusesShapesThatNobodyCanCompute) {
  for (const KernelStep& step : accepted_steps())
    for (bool of_result : {false, true}) {
      if (!of_result && step.operands.empty()) continue;
      auto first = [of_result](KernelStep& s) -> TensorSpec& {
        return of_result ? s.results[0] : s.operands[0];
      };
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = f32({-1, 4});
          },
          "negative extent");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = f32({-2, -2});
          },
          "negative extent");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = {DType::kF32, {kHuge, kHuge}, {0, 0}};
          },
          "2^48");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = {DType::kF32, {kHuge, kHuge, 0}, {0, 0, 0}};
          },
          "2^48");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = {DType::kF32, {2, 2}, {INT64_MIN, 1}};
          },
          "size overflow");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = {DType::kF32, {2, 2}, {INT64_MAX / 4, 1}};
          },
          "2^48");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = {DType::kF32, {2, 2}, {1}};
          },
          "number of strides");
      expect_refused(
          step, [&](KernelStep& s) { first(s) = f32(Shape(100000, 1)); }, "64 dimensions");
      expect_refused(
          step,
          [&](KernelStep& s) {
            first(s) = packed({2, 3, 4});
          },
          "layout that no kernel reads");
    }
}

TEST(FootprintOfAnyKernel, RefusesAttributesOfAnotherKind) {
  for (const KernelStep& step : accepted_steps())
    for (const auto& [name, value] : step.attributes) {
      // Neither kind is one that a kernel reads.
      expect_refused(
          step, [&, n = name](KernelStep& s) { s.attributes.set(n, Symbol{"x"}); },
          step.id == "pointwise" ? "must be lists" : "another kind");
    }
}

TEST(FootprintOfAnyKernel, RefusesResultsReadWithStrides) {
  for (const KernelStep& step : accepted_steps()) {
    auto overlap = [](KernelStep& s) {
      for (TensorSpec& result : s.results) result.strides.assign(result.strides.size(), 0);
    };
    if (element_count(step.results[0].shape) > 1) expect_refused(step, overlap, "");
  }
}

// ---- data movement

TEST(FootprintOfCopy, StatesTheElementsItWalks) {
  KernelStep step{
      "copy", {f32({4, 6})}, {f32({2, 3})}, {{"strides", Integers{6, 1}}, {"offset", int64_t{7}}}};
  const Footprint stated = footprint(step);
  EXPECT_EQ(stated.operands[0], (Extent{7 * 4, (7 + 6 + 2 + 1) * 4}));
  EXPECT_EQ(stated.results[0], (Extent{0, 24}));
}
TEST(FootprintOfCopy, RefusesAnOffsetOutsideItsOperand) {
  for (int64_t offset : {int64_t{-1}, int64_t{1}, int64_t{24}, kHuge, INT64_MIN, INT64_MAX})
    expect_refused(
        transposing_copy(), [&](KernelStep& s) { s.attributes.set("offset", offset); }, "");
}
TEST(FootprintOfCopy, RefusesStridesThatLeaveItsOperand) {
  for (const Integers& strides : {Integers{1, 7}, {-1, 6}, {2, 6}, {INT64_MIN, 6}, {1, INT64_MAX}, {1}, {}})
    expect_refused(
        transposing_copy(), [&](KernelStep& s) { s.attributes.set("strides", strides); }, "");
}
TEST(FootprintOfCopy, RefusesAnotherTypeThanItsOperands) {
  expect_refused(
      transposing_copy(), [](KernelStep& s) { s.results[0].dtype = DType::kF16; }, "do not fit");
}
TEST(FootprintOfCopy, RefusesPanelsOfAnotherShape) {
  expect_refused(
      {"copy", {packed({4, 70})}, {packed({4, 70})}, {}},
      [](KernelStep& s) {
        s.results[0] = packed({8, 70});
      },
      "do not fit");
}

TEST(FootprintOfFlip, RefusesDimensionsThatDoNotExist) {
  for (int64_t dim : {int64_t{-1}, int64_t{2}, INT64_MAX})
    expect_refused(
        flip(), [&](KernelStep& s) { s.attributes.set("dims", Integers{dim}); }, "dimension");
}

TEST(FootprintOfConcat, RefusesPiecesThatDoNotFillTheResult) {
  for (const Shape& shape : {Shape{4, 3}, {4, 1}, {5, 2}, {4}, {4, 2, 1}})
    expect_refused(
        concat(), [&](KernelStep& s) { s.operands[1] = f32(shape); }, "");
  expect_refused(
      concat(),
      [](KernelStep& s) {
        s.operands.push_back(f32({4, 1}));
      },
      "do not fill");
}
TEST(FootprintOfConcat, RefusesDimensionsThatDoNotExist) {
  for (int64_t dim : {int64_t{-1}, int64_t{2}})
    expect_refused(
        concat(), [&](KernelStep& s) { s.attributes.set("dim", dim); }, "dimension");
}
TEST(FootprintOfConcat, RefusesPiecesOfAnotherType) {
  expect_refused(
      concat(), [](KernelStep& s) { s.operands[0].dtype = DType::kF64; }, "do not fit");
}

TEST(FootprintOfPad, RefusesARegionOutsideTheResult) {
  for (const Integers& low : {Integers{3, 2}, {1, 4}, {-1, 2}, {1, -1}, {1}, {kHuge, 0}, {INT64_MAX, 0}})
    expect_refused(
        pad(), [&](KernelStep& s) { s.attributes.set("low", low); }, "region");
  expect_refused(
      pad(),
      [](KernelStep& s) {
        s.operands[0] = f32({4, 6, 1});
      },
      "region");
}

TEST(FootprintOfSliceScatter, RefusesARegionOutsideTheResult) {
  for (const Integers& starts : {Integers{4, 0}, {1, 1}, {-1, 0}, {1}, {INT64_MAX, 0}})
    expect_refused(
        slice_scatter(), [&](KernelStep& s) { s.attributes.set("starts", starts); }, "region");
  for (const Integers& steps : {Integers{4, 1}, {0, 1}, {-1, 1}, {2, 2}, {2}, {kHuge, 1}})
    expect_refused(
        slice_scatter(), [&](KernelStep& s) { s.attributes.set("steps", steps); }, "region");
  expect_refused(
      slice_scatter(),
      [](KernelStep& s) {
        s.attributes.set("steps", Integers{INT64_MAX, 1});
      },
      "");
}

TEST(FootprintOfIota, RefusesADimensionThatDoesNotExist) {
  for (int64_t dim : {int64_t{-1}, int64_t{2}})
    expect_refused(
        iota(), [&](KernelStep& s) { s.attributes.set("dim", dim); }, "dimension");
}
TEST(FootprintOfIota, RefusesTypesItCannotFill) {
  expect_refused(
      iota(), [](KernelStep& s) { s.results[0].dtype = DType::kF8_143; }, "cannot");
}

}  // namespace
}  // namespace ipu::kernels
