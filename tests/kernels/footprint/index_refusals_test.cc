// Steps that a hostile program may hold, refused by the statements of index kernels, reductions, scans,
// sorting and random numbers.
#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/footprint/accepted_steps.h"
#include "tests/layouts.h"

namespace ipu::kernels {
namespace {

using namespace kernel_tests;

// ---- indexing

TEST(FootprintOfEmbedding, RefusesResultsThatAreNotItsRows) {
  for (const Shape& shape : {Shape{3, 5}, {2, 4}, {}})
    expect_refused(
        embedding(), [&](KernelStep& s) { s.results[0] = f32(shape); }, "rows");
  expect_refused(
      embedding(), [](KernelStep& s) { s.operands[0] = f32({10}); }, "no matrix");
  expect_refused(
      embedding(),
      [](KernelStep& s) {
        s.operands[0] = f32({10, 4, 1});
      },
      "no matrix");
}
TEST(FootprintOfEmbedding, RefusesAnIndexThatIsNoRowOfIntegers) {
  expect_refused(
      embedding(), [](KernelStep& s) { s.operands[1].dtype = DType::kI64; }, "do not fit");
  expect_refused(
      embedding(), [](KernelStep& s) { s.operands[1].strides = {2}; }, "do not fit");
  expect_refused(
      embedding(),
      [](KernelStep& s) {
        s.operands[0].strides = {5, 1};
      },
      "do not fit");
}

TEST(FootprintOfEmbeddingGradient, RefusesRowsThatAreNotOnePerIndex) {
  for (const Shape& shape : {Shape{3, 5}, {2, 4}, {4, 4}})
    expect_refused(
        embedding_gradient(), [&](KernelStep& s) { s.operands[0] = f16(shape); }, "rows");
  expect_refused(
      embedding_gradient(), [](KernelStep& s) { s.results[0] = f16({10}); }, "no matrix");
  expect_refused(
      embedding_gradient(),
      [](KernelStep& s) {
        s.operands[0] = f32({3, 4});
      },
      "do not fit");
}
TEST(FootprintOfEmbeddingGradient, RefusesMorePositionsThanItCounts) {
  expect_refused(
      embedding_gradient(),
      [](KernelStep& s) {
        s.operands = {f16({kHuge, 0}), i32({kHuge})};
        s.results[0] = f16({10, 0});
      },
      "too many indices");
}

TEST(FootprintOfGather, RefusesAnIndexLongerThanWhatItIndexes) {
  expect_refused(
      gather(),
      [](KernelStep& s) {
        s.operands[1] = i32({3, 5});
        s.results[0] = f32({3, 5});
      },
      "longer");
}
TEST(FootprintOfGather, RefusesResultsDimensionsAndRanksThatDoNotFit) {
  expect_refused(
      gather(),
      [](KernelStep& s) {
        s.results[0] = f32({2, 4});
      },
      "fill");
  expect_refused(
      gather(), [](KernelStep& s) { s.operands[0] = f32({20}); }, "do not fit");
  expect_refused(
      gather(), [](KernelStep& s) { s.operands[0].layout = panels_for(s.operands[0].shape); }, "do not fit");
  for (int64_t dim : {int64_t{-1}, int64_t{2}})
    expect_refused(
        gather(), [&](KernelStep& s) { s.attributes.set("dim", dim); }, "dimension");
}

TEST(FootprintOfScatter, RefusesASourceThatIsNotOnePerIndex) {
  for (const char* id : {"scatter", "scatter_add"}) {
    expect_refused(
        scatter(id),
        [](KernelStep& s) {
          s.operands[2] = f32({2, 4});
        },
        "one per index");
    expect_refused(
        scatter(id),
        [](KernelStep& s) {
          s.operands[1] = i32({3, 5});
        },
        "longer");
    expect_refused(
        scatter(id),
        [](KernelStep& s) {
          s.results[0] = f32({4, 4});
        },
        "do not fit");
    expect_refused(
        scatter(id), [](KernelStep& s) { s.attributes.set("dim", int64_t{-1}); }, "dimension");
  }
  expect_refused(
      scatter("scatter"), [](KernelStep& s) { s.attributes.set("mode", std::string("xor")); }, "mode");
}

TEST(FootprintsOfIndices, RefuseShapesWhoseStridesNobodyCanCount) {
  const KernelStep flat{"flat_index", {i32({2, 65})}, {i32({2, 65})}, {{"sizes", Integers{4}}}};
  const KernelStep bucket{"bucketize", {f32({2, 65}), f32({3})}, {i32({2, 65})}, {{"right", false}}};
  for (const KernelStep& step : {flat, bucket})
    expect_refused(
        step,
        [](KernelStep& s) {
          s.operands[0].shape = {std::numeric_limits<int64_t>::max(), 65};  // and strides of {2, 65}
        },
        "2^48 elements");
}

TEST(FootprintOfIndexSelect, RefusesResultsThatAreNotItsSlices) {
  expect_refused(
      index_select(),
      [](KernelStep& s) {
        s.results[0] = f32({5, 4});
      },
      "slices");
  expect_refused(
      index_select(), [](KernelStep& s) { s.operands[1] = i32({4}); }, "slices");
  for (int64_t dim : {int64_t{-1}, int64_t{2}})
    expect_refused(
        index_select(), [&](KernelStep& s) { s.attributes.set("dim", dim); }, "dimension");
}

TEST(FootprintOfIndexAdd, RefusesASourceThatIsNotItsSlices) {
  expect_refused(
      index_add(),
      [](KernelStep& s) {
        s.operands[2] = f32({4, 3});
      },
      "one per index");
  expect_refused(
      index_add(), [](KernelStep& s) { s.operands[1] = i32({4}); }, "one per index");
  expect_refused(
      index_add(),
      [](KernelStep& s) {
        s.results[0] = f32({5, 3});
      },
      "do not fit");
  expect_refused(
      index_add(), [](KernelStep& s) { s.attributes.set("dim", int64_t{2}); }, "dimension");
}

TEST(FootprintOfOneHot, RefusesAnotherNumberOfClassesThanTheResultHas) {
  for (int64_t classes : {int64_t{6}, int64_t{8}, int64_t{-7}, kHuge, INT64_MAX, INT64_MIN})
    expect_refused(
        one_hot(), [&](KernelStep& s) { s.attributes.set("classes", classes); }, "classes");
}

// ---- reduction, scan, sorting

TEST(FootprintOfReduce, RefusesDimensionsThatDoNotExist) {
  for (int64_t dim : {int64_t{-1}, int64_t{2}, INT64_MIN})
    expect_refused(
        reduce(), [&](KernelStep& s) { s.attributes.set("dims", Integers{dim}); }, "dimension");
}
TEST(FootprintOfReduce, RefusesResultsOfAnotherShape) {
  for (const Shape& shape : {Shape{4}, {5, 1}, {}, {5, 4}})
    expect_refused(
        reduce(), [&](KernelStep& s) { s.results[0] = f32(shape); }, "another shape");
  expect_refused(
      reduce(), [](KernelStep& s) { s.attributes.set("keep_dims", true); }, "another shape");
}
TEST(FootprintOfReduce, RefusesTypesItCannotReduce) {
  KernelStep step = reduce();
  expect_refused(
      step, [](KernelStep& s) { s.operands[0].dtype = s.results[0].dtype = DType::kF8_143; }, "cannot");
  expect_refused(
      step, [](KernelStep& s) { s.results[0].dtype = DType::kF64; }, "cannot");
}

TEST(FootprintOfArgmax, RefusesDimensionsAndResultsThatDoNotFit) {
  for (int64_t dim : {int64_t{-1}, int64_t{2}})
    expect_refused(
        argmax(), [&](KernelStep& s) { s.attributes.set("dim", dim); }, "dimension");
  for (const Shape& shape : {Shape{4}, {5, 1}, {}})
    expect_refused(
        argmax(), [&](KernelStep& s) { s.results[0] = i32(shape); }, "another shape");
  expect_refused(
      argmax(), [](KernelStep& s) { s.results[0].dtype = DType::kI16; }, "cannot");
  expect_refused(
      argmax(),
      [](KernelStep& s) {
        s.operands[0] = f32({5, 0});
      },
      "too few");
  expect_refused(
      argmax(),
      [](KernelStep& s) {
        s.operands[0] = {DType::kF32, {5, kHuge}, {0, 0}};
      },
      "too many");
}

TEST(FootprintOfSquareSum, RefusesAResultWithoutMemoryForTheNumber) {
  expect_refused(
      square_sum(), [](KernelStep& s) { s.results[0] = f32({0}); }, "not one number");
  expect_refused(
      square_sum(), [](KernelStep& s) { s.results[0] = f16({}); }, "cannot");
}

TEST(FootprintOfChannelSums, RefusesStatisticsThatAreNotPerChannel) {
  const KernelStep moments{"channel_moments", {f32({2, 3, 5})}, {f32({1, 3, 1}), f32({1, 3, 1})}, {}};
  expect_refused(
      moments,
      [](KernelStep& s) {
        s.results[1] = f32({1, 2, 1});
      },
      "has no moments of channels");
  expect_refused(
      moments, [](KernelStep& s) { s.results[0] = f32({3}); }, "has no moments of channels");
  const KernelStep sums{"channel_gradient_sums",
                        {f32({2, 3, 5}), f32({2, 3, 5}), f32({1, 3, 1}), f32({1, 3, 1})},
                        {f32({1, 3, 1}), f32({1, 3, 1})},
                        {}};
  expect_refused(
      sums,
      [](KernelStep& s) {
        s.operands[0] = f32({2, 3, 4});
      },
      "has no sums of channels");
  expect_refused(
      sums,
      [](KernelStep& s) {
        s.operands[3] = f32({1, 1, 1});
      },
      "has no sums of channels");
}

TEST(FootprintOfScan, RefusesOperandsOfAnotherShapeOrType) {
  for (const KernelStep& step : {cumsum(), cumprod_gradient()}) {
    expect_refused(
        step,
        [](KernelStep& s) {
          s.operands.back() = f32({5, 3});
        },
        "do not fit");
    expect_refused(
        step,
        [](KernelStep& s) {
          s.operands.back() = f16({5, 4});
        },
        "do not fit");
    for (int64_t dim : {int64_t{-1}, int64_t{2}})
      expect_refused(
          step, [&](KernelStep& s) { s.attributes.set("dim", dim); }, "dimension");
  }
}

TEST(FootprintOfSort, RefusesMoreSortedElementsThanTheRowHas) {
  expect_refused(
      sort(),
      [](KernelStep& s) {
        s.results = {f32({5, 10}), i32({5, 10})};
      },
      "another shape");
}
TEST(FootprintOfSort, RefusesResultsThatDiffer) {
  expect_refused(
      sort(),
      [](KernelStep& s) {
        s.results[0] = f32({5, 8});
      },
      "another shape");
  expect_refused(
      sort(),
      [](KernelStep& s) {
        s.results = {f32({4, 9}), i32({4, 9})};
      },
      "another shape");
  expect_refused(
      sort(),
      [](KernelStep& s) {
        s.results = {f32({45}), i32({45})};
      },
      "another shape");
  expect_refused(
      sort(), [](KernelStep& s) { s.results[1].dtype = DType::kI16; }, "cannot");
}
TEST(FootprintOfSort, RefusesRowsWhoseIndicesDoNotFit) {
  expect_refused(
      sort(),
      [](KernelStep& s) {
        s.operands[0] = f32({0, kHuge});
        s.results = {f32({0, 9}), i32({0, 9})};
      },
      "too long");
}

// ---- random

TEST(FootprintOfRandom, RefusesASeedThatIsNotTwoWords) {
  for (const KernelStep& step : {normal(), KernelStep{"random_bits", {u32({2})}, {u32({9})}, {}},
                                 KernelStep{"random_permutation", {u32({2})}, {i32({9})}, {}}})
    for (const TensorSpec& seed : {u32({1}), u32({}), u32({0}), i32({2}), TensorSpec{DType::kU32, {2}, {0}}})
      expect_refused(
          step, [&](KernelStep& s) { s.operands[0] = seed; }, "seed");
}
TEST(FootprintOfRandom, RefusesASeedResultThatIsNotTwoWords) {
  for (const TensorSpec& result : {u32({1}), u32({}), f16({2})})
    expect_refused(
        seed(), [&](KernelStep& s) { s.results[0] = result; }, "seed");
  expect_refused(
      seed(), [](KernelStep& s) { s.operands[1] = i32({0}); }, "one number");
}
TEST(FootprintOfRandom, RefusesAPermutationTooLongForItsNumbers) {
  expect_refused(
      {"random_permutation", {u32({2})}, {i32({9})}, {}}, [](KernelStep& s) { s.results[0] = i32({kHuge}); },
      "too many");
}
TEST(FootprintOfRandom, RefusesADropoutOfAnotherSizeOrProbability) {
  expect_refused(
      dropout(), [](KernelStep& s) { s.results[0] = f32({10}); }, "another size");
  expect_refused(
      dropout(), [](KernelStep& s) { s.results[0] = f16({9}); }, "do not fit");
  for (double p : {-0.1, 1.1, -1e300, std::numeric_limits<double>::quiet_NaN()})
    expect_refused(
        dropout(), [&](KernelStep& s) { s.attributes.set("p", p); }, "probability");
  expect_refused(
      dropout(), [](KernelStep& s) { s.attributes.erase("p"); }, "no attribute");
}
TEST(FootprintOfRandom, RefusesARoundingOfAnotherSizeOrType) {
  expect_refused(
      stochastic_round(), [](KernelStep& s) { s.results[0] = f16({10}); }, "another size");
  expect_refused(
      stochastic_round(), [](KernelStep& s) { s.results[0] = f32({9}); }, "types or layouts");
  expect_refused(
      stochastic_round(), [](KernelStep& s) { s.operands[1] = u32({3}); }, "types or layouts");
}
TEST(FootprintOfProducts, RefusesHalfPartialsThatDoNotFit) {
  expect_refused(
      half_partials(),
      [](KernelStep& s) {
        s.operands[1] = f16({2, 21, 5});
      },
      "do not fit");
  expect_refused(
      half_partials(),
      [](KernelStep& s) {
        s.operands[2] = f16({2, 3, 6});
      },
      "do not fit");
  expect_refused(
      half_partials(),
      [](KernelStep& s) {
        s.results[0] = f32({2, 3, 5});
      },
      "do not fit");
}

}  // namespace
}  // namespace ipu::kernels
