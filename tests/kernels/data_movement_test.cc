// Kernels that only move elements: copy, flip, concat, pad, slice_scatter, iota, against index arithmetic.
#include "tests/kernels/index_arithmetic.h"
#include "tests/kernels/kernel_runner.h"
#include "tests/layouts.h"

namespace ipu::kernels::kernel_tests {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kI32, DType::kI8, DType::kBool};

Shape random_shape(std::mt19937& random, size_t rank, int64_t largest) {
  Shape shape;
  for (size_t d = 0; d < rank; ++d)
    shape.push_back(1 + static_cast<int64_t>(random() % static_cast<uint32_t>(largest)));
  return shape;
}

TEST(Copy, PermutedOperandsAreReadInLogicalOrder) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    Shape shape = random_shape(random, 1 + random() % 4, seed % 3 ? 10 : 30);
    DType dtype = kTypes[seed % 5];
    Tensor x = Tensor::with(permuted_spec(dtype, shape, random, seed % 2)).randomize(random, 0, 100);
    Tensor y = Tensor::plain(dtype, shape);
    run("copy", {&x}, {&y});
    ASSERT_EQ(x.values(), y.values()) << ipu::to_string(shape);
  }
}

TEST(Copy, OffsetAndStridesReadAnyViewOfAContiguousOperand) {
  std::mt19937 random(1);
  Tensor x = Tensor::plain(DType::kF32, {6, 50, 40}).randomize(random);
  // x.transpose(1, 2)[:, ::3, 5:45:2] with the last dimension reversed.
  Shape shape{6, 14, 20};
  Tensor y = Tensor::plain(DType::kF32, shape);
  run("copy", {&x}, {&y}, {{"offset", int64_t{43 * 40}}, {"strides", Strides{2000, 3, -80}}});
  for (int64_t i = 0; i < y.elements(); ++i) {
    auto k = indices(shape, i);
    ASSERT_EQ(y.at(i), x.at(flat_index(x.spec.shape, {k[0], 43 - 2 * k[2], 3 * k[1]})));
  }
}

TEST(Copy, BroadcastsAndLargeTransposesGiveTheSameInAnyLaneOrder) {
  std::mt19937 random(2);
  Tensor row = Tensor::plain(DType::kF32, {1, 300}).randomize(random),
         wide = Tensor::plain(DType::kF32, {500, 300});
  run("copy", {&row}, {&wide});
  for (int64_t i = 0; i < wide.elements(); ++i) ASSERT_EQ(wide.at(i), row.at(i % 300));
  TensorSpec transposed{DType::kF32, {700, 513}, {1, 700}, Layout::kPlain};
  Tensor x = Tensor::with(transposed).randomize(random), y = Tensor::plain(DType::kF32, {700, 513}), z = y;
  auto kernel = prepare("copy", {&x}, {&y}, {});
  ASSERT_GT(kernel->lanes(), 1);
  run(*kernel, {&x}, {&y});
  run(*kernel, {&x}, {&z}, nullptr, true);
  EXPECT_EQ(x.values(), y.values());
  EXPECT_EQ(y.bytes, z.bytes);
}

TEST(Copy, LayoutsAreCopiedWholeAndRefusedWhenTheyDiffer) {
  std::mt19937 random(3);
  Tensor packed =
      Tensor::with({DType::kF32, {9, 20}, contiguous_strides(Shape{9, 20}), Layout::panels_of_matrix(20)})
          .randomize(random);
  Tensor same = packed, plain = Tensor::plain(DType::kF32, {9, 20});
  std::fill(same.bytes.begin(), same.bytes.end(), std::byte{1});
  run("copy", {&packed}, {&same});
  EXPECT_EQ(packed.bytes, same.bytes);
  EXPECT_EQ(prepare("copy", {&packed}, {&plain}, {}), nullptr);
  Tensor halves = Tensor::plain(DType::kF16, {9, 20});
  EXPECT_EQ(prepare("copy", {&plain}, {&halves}, {}), nullptr);
}

TEST(Flip, ReversesTheNamedDimensions) {
  std::mt19937 random(4);
  Shape shape{3, 17, 9};
  Tensor x = Tensor::plain(DType::kI32, shape).randomize(random, -1000, 1000),
         y = Tensor::plain(DType::kI32, shape);
  run("flip", {&x}, {&y}, {{"dims", Shape{0, 2}}});
  for (int64_t i = 0; i < y.elements(); ++i) {
    auto k = indices(shape, i);
    ASSERT_EQ(y.at(i), x.at(flat_index(shape, {2 - k[0], k[1], 8 - k[2]})));
  }
}

TEST(Concat, PiecesLieOneAfterTheOther) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Shape shape = random_shape(random, 2 + random() % 3, 20);
    auto dim = static_cast<int64_t>(random() % shape.size());
    bool channels_last = seed % 4 == 0 && shape.size() > 2;
    std::vector<Tensor> pieces;
    int64_t total = 0;
    for (size_t k = 0; k < 1 + random() % 4; ++k) {
      Shape own = shape;
      own[dim] = static_cast<int64_t>(random() % 40);
      total += own[dim];
      TensorSpec spec =
          k % 2 ? permuted_spec(kTypes[seed % 5], own, random) : TensorSpec::plain(kTypes[seed % 5], own);
      if (channels_last) spec = {kTypes[seed % 5], own, contiguous_strides(own), channels_last_for(own)};
      pieces.push_back(Tensor::with(spec).randomize(random, 0, 100));
    }
    shape[dim] = total;
    TensorSpec whole = TensorSpec::plain(kTypes[seed % 5], shape);
    if (channels_last) whole.layout = channels_last_for(whole.shape);
    Tensor y = Tensor::with(whole);
    std::vector<const Tensor*> operands;
    for (const Tensor& t : pieces) operands.push_back(&t);
    run("concat", operands, {&y}, {{"dim", dim}});
    for (int64_t i = 0; i < y.elements(); ++i) {
      auto k = indices(shape, i);
      size_t piece = 0;
      while (k[dim] >= pieces[piece].spec.shape[dim]) k[dim] -= pieces[piece++].spec.shape[dim];
      ASSERT_EQ(y.at(i), pieces[piece].at(flat_index(pieces[piece].spec.shape, k))) << "seed " << seed;
    }
  }
}

TEST(Pad, SurroundsTheOperandWithTheValue) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Shape inner = random_shape(random, random() % 4, 30), outer = inner;
    std::vector<int64_t> low, high;
    for (int64_t& extent : outer) {
      low.push_back(static_cast<int64_t>(random() % 3));
      high.push_back(static_cast<int64_t>(random() % 3));
      extent += low.back() + high.back();
    }
    DType dtype = kTypes[seed % 4];
    Tensor x = Tensor::with(permuted_spec(dtype, inner, random)).randomize(random, 0, 100),
           y = Tensor::plain(dtype, outer);
    run("pad", {&x}, {&y}, {{"low", low}, {"high", high}, {"value", 7.0}});
    for (int64_t i = 0; i < y.elements(); ++i) {
      auto k = indices(outer, i);
      bool inside = true;
      for (size_t d = 0; d < k.size(); ++d) {
        k[d] -= low[d];
        inside &= k[d] >= 0 && k[d] < inner[d];
      }
      ASSERT_EQ(y.at(i), inside ? x.at(flat_index(inner, k)) : 7.0) << "seed " << seed;
    }
  }
}

TEST(SliceScatter, ReplacesTheRegionAndMayRunInPlace) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Shape shape = random_shape(random, 1 + random() % 3, 25), sizes;
    if (seed % 5 == 0) shape[0] = 1;
    std::vector<int64_t> starts, steps;
    for (int64_t extent : shape) {
      starts.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(extent)));
      steps.push_back(1 + static_cast<int64_t>(random() % 3));
      sizes.push_back(static_cast<int64_t>(random() % 4 == 0 && seed % 7 == 0
                                               ? 0
                                               : (extent - starts.back() + steps.back() - 1) / steps.back()));
    }
    DType dtype = kTypes[seed % 5];
    Tensor x = Tensor::plain(dtype, shape).randomize(random, 0, 100), y = Tensor::plain(dtype, shape);
    Tensor source = Tensor::with(permuted_spec(dtype, sizes, random)).randomize(random, 0, 100);
    Attributes region{{"starts", starts}, {"sizes", sizes}, {"steps", steps}};
    std::vector<double> want = x.values();
    for (int64_t i = 0; i < source.elements(); ++i) {
      auto k = indices(sizes, i);
      for (size_t d = 0; d < k.size(); ++d) k[d] = starts[d] + k[d] * steps[d];
      want[static_cast<size_t>(flat_index(shape, k))] = source.at(i);
    }
    run("slice_scatter", {&x, &source}, {&y}, region);
    ASSERT_EQ(y.values(), want) << "seed " << seed;
    run("slice_scatter", {&x, &source}, {&x}, region);
    ASSERT_EQ(x.values(), want) << "in place, seed " << seed;
  }
}

TEST(Iota, CountsAlongItsDimension) {
  Tensor y = Tensor::plain(DType::kF32, {2, 3, 4}), z = Tensor::plain(DType::kI32, {5});
  run("iota", {}, {&y},
      {{"shape", Shape{2, 3, 4}},
       {"dim", int64_t{1}},
       {"dtype", DType::kF32},
       {"start", -1.0},
       {"step", 0.5}});
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(y.at(i), -1.0 + 0.5 * static_cast<double>(i / 4 % 3));
  run("iota", {}, {&z}, {{"shape", Shape{5}}, {"dim", int64_t{0}}, {"dtype", DType::kI32}});
  EXPECT_EQ(z.values(), (std::vector<double>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
