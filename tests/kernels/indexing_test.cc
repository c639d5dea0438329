// Kernels that read or write by index, against loops; wrong indices are reported and touch nothing else.
#include "tests/kernels/index_arithmetic.h"
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

Tensor random_index(Shape shape, int64_t extent, std::mt19937& random) {
  return Tensor::plain(DType::kI32, std::move(shape)).randomize(random, 0, static_cast<double>(extent));
}
// Whole numbers: sums in any precision are exact.
void whole(Tensor& t, std::mt19937& random) {
  for (int64_t i = 0; i < t.elements(); ++i) t.set(i, static_cast<double>(random() % 7) - 3);
}

TEST(Embedding, RowsByNumberAndTheirGradient) {
  std::mt19937 random(1);
  for (DType dtype : {DType::kF32, DType::kF16})
    for (auto [rows, width, count] : {std::tuple<int64_t, int64_t, int64_t>{11, 5, 40},
                                      {50, 300, 700},
                                      {3000, 16, 5000},
                                      {4, 1, 1},
                                      {4000, 130, 90},
                                      {700, 300, 90}}) {
      Tensor weight = Tensor::plain(dtype, {rows, width}), dy = Tensor::plain(dtype, {count, width}), y = dy,
             dw = weight;
      whole(weight, random);
      whole(dy, random);
      Tensor index = random_index({count}, rows, random);
      run("embedding", {&weight, &index}, {&y});
      for (int64_t i = 0; i < y.elements(); ++i)
        ASSERT_EQ(y.at(i), weight.at(static_cast<int64_t>(index.at(i / width)) * width + i % width));
      int64_t padding = rows > 4 ? 3 : -1;
      std::vector<double> want(static_cast<size_t>(dw.elements()));
      for (int64_t i = 0; i < count; ++i)
        for (int64_t c = 0; c < width && index.at(i) != static_cast<double>(padding); ++c)
          want[static_cast<size_t>(static_cast<int64_t>(index.at(i)) * width + c)] += dy.at(i * width + c);
      auto kernel =
          prepare("embedding_gradient", {&dy, &index}, {&dw}, {{"rows", rows}, {"padding_idx", padding}});
      for (bool reversed : {false, true}) {
        run(*kernel, {&dy, &index}, {&dw}, nullptr, reversed);
        ASSERT_EQ(dw.values(), want) << rows << "x" << width;
      }
    }
}

TEST(Embedding, WrongNumbersAreReportedAndGiveZeroRows) {
  Tensor weight = Tensor::of(DType::kF32, {2, 2}, {1, 2, 3, 4}), y = Tensor::plain(DType::kF32, {4, 2}),
         dw = weight;
  Tensor index = Tensor::of(DType::kI32, {4}, {1, -1, 0, 2});
  KernelFault fault;
  run("embedding", {&weight, &index}, {&y}, {}, &fault);
  EXPECT_EQ(fault.message(), "index out of range: index -1 (element 1 of 'index') is not in [0, 2).");
  EXPECT_EQ(y.values(), (std::vector<double>{3, 4, 0, 0, 1, 2, 0, 0}));
  fault.clear();
  run("embedding_gradient", {&y, &index}, {&dw}, {{"rows", int64_t{2}}}, &fault);
  EXPECT_TRUE(fault.raised());
  EXPECT_EQ(dw.values(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(FlatIndex, NumbersElementsFromIndicesOfEachDimension) {
  std::mt19937 random(5);
  for (int64_t count : {1, 7, 300000}) {
    Tensor i = random_index({count}, 11, random), j = random_index({count}, 7, random),
           k = random_index({count}, 5, random), y = Tensor::plain(DType::kI32, {count});
    for (int64_t n = 0; n < count; n += 3) {  // from the end
      i.set(n, i.at(n) - 11);
      k.set(n, k.at(n) - 5);
    }
    auto kernel = prepare("flat_index", {&i, &j, &k}, {&y}, {{"sizes", Shape{11, 7, 5}}});
    for (bool reversed : {false, true}) {
      run(*kernel, {&i, &j, &k}, {&y}, nullptr, reversed);
      for (int64_t n = 0; n < count; ++n) {
        const auto place = [](double at, double size) { return at < 0 ? at + size : at; };
        ASSERT_EQ(y.at(n), (place(i.at(n), 11) * 7 + j.at(n)) * 5 + place(k.at(n), 5));
      }
    }
  }
}

TEST(FlatIndex, EachIndexIsCheckedAgainstItsOwnSize) {
  Tensor i = Tensor::of(DType::kI32, {4}, {0, 1, -2, 1}), j = Tensor::of(DType::kI32, {4}, {3, 2, -3, 2}),
         y = Tensor::plain(DType::kI32, {4});
  KernelFault fault;
  run("flat_index", {&i, &j}, {&y}, {{"sizes", Shape{2, 3}}}, &fault);
  EXPECT_EQ(fault.message(), "index out of range: index 3 (element 0 of 'index 1') is not in [-3, 3).");
  EXPECT_EQ(y.values(), (std::vector<double>{0, 5, 0, 5}));
  fault.clear();
  j.set(0, 0);
  i.set(2, -3);
  run("flat_index", {&i, &j}, {&y}, {{"sizes", Shape{2, 3}}}, &fault);
  EXPECT_EQ(fault.message(), "index out of range: index -3 (element 2 of 'index 0') is not in [-2, 2).");
  fault.clear();
  for (double far : {2147483647.0, -2147483648.0}) {
    Tensor wide = Tensor::of(DType::kI32, {1}, {far}), one = Tensor::plain(DType::kI32, {1});
    run("flat_index", {&wide}, {&one}, {{"sizes", Shape{2147483647}}}, &fault);
    EXPECT_TRUE(fault.raised());
    EXPECT_EQ(one.at(0), 0);
    fault.clear();
  }
}

TEST(Gather, ElementsByIndexAndTheirWayBack) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    const DType dtype = std::array{DType::kF32, DType::kI32, DType::kF16, DType::kI8}[seed % 4];
    Shape x_shape, index_shape;
    auto rank = 1 + random() % 3;
    auto dim = static_cast<int64_t>(random() % rank);
    for (size_t d = 0; d < rank; ++d) {
      x_shape.push_back(1 + static_cast<int64_t>(random() % 30));
      index_shape.push_back(static_cast<int64_t>(d) == dim
                                ? static_cast<int64_t>(random() % 50)
                                : x_shape[d] - static_cast<int64_t>(random() % 2 && x_shape[d] > 1));
    }
    Tensor x = Tensor::with(permuted_spec(dtype, x_shape, random)),
           index = random_index(index_shape, x_shape[static_cast<size_t>(dim)], random);
    whole(x, random);
    Tensor y = Tensor::plain(dtype, index_shape), source = y, z = Tensor::plain(dtype, x_shape);
    whole(source, random);
    Attributes attributes{{"dim", dim}};
    auto element = [&](int64_t i) {
      auto k = indices(index_shape, i);
      k[static_cast<size_t>(dim)] = static_cast<int64_t>(index.at(i));
      return flat_index(x_shape, k);
    };
    run("gather", {&x, &index}, {&y}, attributes);
    for (int64_t i = 0; i < y.elements(); ++i) ASSERT_EQ(y.at(i), x.at(element(i))) << "seed " << seed;
    std::vector<double> want = x.values();
    for (int64_t i = 0; i < source.elements(); ++i) want[static_cast<size_t>(element(i))] += source.at(i);
    run("scatter_add", {&x, &index, &source}, {&z}, attributes);
    ASSERT_EQ(z.values(), want) << "seed " << seed;
    if (x.spec.is_contiguous()) {
      run("scatter_add", {&x, &index, &source}, {&x}, attributes);
      ASSERT_EQ(x.values(), want) << "in place, seed " << seed;
    }
  }
}

TEST(Gather, LargeOnesGiveTheSameInAnyLaneOrder) {
  std::mt19937 random(5);
  for (int64_t dim : {0, 1}) {
    Tensor x = Tensor::plain(DType::kF32, {400, 500}), index = random_index({400, 500}, 400, random), z = x,
           w = x;
    x.randomize(random);
    Tensor source = Tensor::plain(DType::kF32, {400, 500}).randomize(random);
    auto kernel = prepare("scatter_add", {&x, &index, &source}, {&z}, {{"dim", dim}});
    ASSERT_GT(kernel->lanes(), 1);
    run(*kernel, {&x, &index, &source}, {&z});
    run(*kernel, {&x, &index, &source}, {&w}, nullptr, true);
    EXPECT_EQ(z.bytes, w.bytes);
  }
}

TEST(IndexSelect, SlicesByNumberAndTheirWayBack) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const DType dtype = std::array{DType::kF32, DType::kI32, DType::kF16}[seed % 3];
    Shape shape, selected;
    auto rank = 1 + random() % 3;
    for (size_t d = 0; d < rank; ++d)
      shape.push_back(1 + static_cast<int64_t>(random() % (seed % 5 ? 20 : 90)));
    auto dim = static_cast<int64_t>(random() % rank);
    auto count = static_cast<int64_t>(random() % 40);
    selected = shape;
    selected[static_cast<size_t>(dim)] = count;
    Tensor x = Tensor::plain(dtype, shape),
           index = random_index({count}, shape[static_cast<size_t>(dim)], random);
    whole(x, random);
    Tensor y = Tensor::plain(dtype, selected), source = y, z = x;
    whole(source, random);
    auto element = [&](int64_t i) {
      auto k = indices(selected, i);
      k[static_cast<size_t>(dim)] = static_cast<int64_t>(index.at(k[static_cast<size_t>(dim)]));
      return flat_index(shape, k);
    };
    run("index_select", {&x, &index}, {&y}, {{"dim", dim}});
    for (int64_t i = 0; i < y.elements(); ++i) ASSERT_EQ(y.at(i), x.at(element(i))) << "seed " << seed;
    // x as it is, and as one number broadcast.
    for (bool broadcast : {false, true}) {
      TensorSpec spec = TensorSpec::plain(dtype, shape);
      if (broadcast) spec.strides.assign(shape.size(), 0);
      Tensor base = broadcast ? Tensor::with(spec) : x;
      std::vector<double> want = base.values();
      for (int64_t i = 0; i < source.elements(); ++i) want[static_cast<size_t>(element(i))] += source.at(i);
      run("index_add", {&base, &index, &source}, {&z}, {{"dim", dim}});
      ASSERT_EQ(z.values(), want) << "seed " << seed;
    }
    std::vector<double> want = z.values();
    for (int64_t i = 0; i < source.elements(); ++i) want[static_cast<size_t>(element(i))] += source.at(i);
    run("index_add", {&z, &index, &source}, {&z}, {{"dim", dim}});
    ASSERT_EQ(z.values(), want) << "in place, seed " << seed;
    // Replaced: of equal numbers the last stays. Into new memory, and in place.
    want = x.values();
    for (int64_t i = 0; i < source.elements(); ++i) want[static_cast<size_t>(element(i))] = source.at(i);
    run("index_copy", {&x, &index, &source}, {&z}, {{"dim", dim}});
    ASSERT_EQ(z.values(), want) << "seed " << seed;
    run("index_copy", {&x, &index, &source}, {&x}, {{"dim", dim}});
    ASSERT_EQ(x.values(), want) << "in place, seed " << seed;
  }
}

TEST(IndexSelect, TakesSingleElementsInManyLanes) {
  std::mt19937 random(1);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    Tensor x = Tensor::plain(dtype, {301, 70}), y = Tensor::plain(dtype, {301, 90});
    Tensor index = random_index({90}, 70, random);
    whole(x, random);
    auto kernel = prepare("index_select", {&x, &index}, {&y}, {{"dim", int64_t{1}}});
    ASSERT_GT(kernel->lanes(), 1);
    run(*kernel, {&x, &index}, {&y});
    for (int64_t i = 0; i < y.elements(); ++i)
      ASSERT_EQ(y.at(i), x.at(i / 90 * 70 + static_cast<int64_t>(index.at(i % 90))));
  }
}

TEST(IndexSelect, ReadsAndWritesImagesChannelsLast) {
  std::mt19937 random(2);
  for (int64_t dim = 0; dim < 4; ++dim) {
    const Shape shape{2, 5, 3, 4};
    Shape selected = shape;
    selected[static_cast<size_t>(dim)] = 7;
    const Layout last = Layout::channels_last(4);
    Tensor x = Tensor::with({DType::kF32, shape, contiguous_strides(shape), last}),
           y = Tensor::with({DType::kF32, selected, contiguous_strides(selected), last});
    Tensor index = random_index({7}, shape[static_cast<size_t>(dim)], random);
    whole(x, random);
    run("index_select", {&x, &index}, {&y}, {{"dim", dim}});
    for (int64_t i = 0; i < y.elements(); ++i) {
      auto k = indices(selected, i);
      k[static_cast<size_t>(dim)] = static_cast<int64_t>(index.at(k[static_cast<size_t>(dim)]));
      ASSERT_EQ(y.at(i), x.at(flat_index(shape, k))) << "dim " << dim;
    }
  }
}

TEST(IndexCopy, RefusesANumberThatIsNotThere) {
  Tensor x = Tensor::of(DType::kF32, {3}, {1, 2, 3}), index = Tensor::of(DType::kI32, {2}, {1, 3}),
         source = Tensor::of(DType::kF32, {2}, {8, 9});
  KernelFault fault;
  run("index_copy", {&x, &index, &source}, {&x}, {{"dim", int64_t{0}}}, &fault);
  EXPECT_EQ(x.values(), (std::vector<double>{1, 8, 3}));
  EXPECT_TRUE(fault.raised());
}

TEST(OneHot, OneAtTheIndexAndZeroElsewhere) {
  for (DType dtype : {DType::kI32, DType::kF32, DType::kF16, DType::kBool}) {
    Tensor index = Tensor::of(DType::kI32, {3}, {2, 0, 5}), y = Tensor::plain(dtype, {3, 3});
    KernelFault fault;
    run("one_hot", {&index}, {&y}, {{"classes", int64_t{3}}, {"dtype", dtype}}, &fault);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 0, 1, 1, 0, 0, 0, 0, 0}));
    EXPECT_TRUE(fault.raised());
  }
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
