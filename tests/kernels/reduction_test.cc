// Reductions and argmax against f64 loops: dims of every kind, strides, layouts, dtypes, NaN, empty, error
// bounds.
#include <limits>

#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& dims, bool keep) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool gone = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!gone)
      out.push_back(shape[d]);
    else if (keep)
      out.push_back(1);
  }
  return out;
}

std::vector<double> reduce(const Tensor& x, const std::vector<int64_t>& dims, double start,
                           const std::function<double(double, double)>& fold) {
  const Shape& shape = x.spec.shape;
  Strides strides = contiguous_strides(reduced_shape(shape, dims, true));
  for (int64_t d : dims) strides[static_cast<size_t>(d)] = 0;
  std::vector<double> out(static_cast<size_t>(element_count(reduced_shape(shape, dims, true))), start);
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t at = 0, rest = i;
    for (size_t d = shape.size(); d-- > 0;) {
      at += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    double& into = out[static_cast<size_t>(at)];
    into = fold(into, x.at(i));
  }
  return out;
}
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b); }

TEST(Reduce, ReducesAlongAnyDimensionsOfAnyStridesLayoutAndType) {
  const DType types[] = {DType::kF32, DType::kI32, DType::kF16, DType::kI8, DType::kF32, DType::kU16};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Shape shape;
    for (size_t d = 0, rank = random() % 5; d < rank; ++d)
      shape.push_back(1 + static_cast<int64_t>(random() % (seed % 3 ? 9 : 40)));
    std::vector<int64_t> dims;
    for (size_t d = 0; d < shape.size(); ++d)
      if (random() % 2) dims.push_back(static_cast<int64_t>(d));
    bool keep = random() % 2;
    DType dtype = types[seed % 6];
    bool is_float = is_floating_point(dtype);
    TensorSpec spec =
        seed % 2 ? permuted_spec(dtype, shape, random, seed % 4 == 1) : TensorSpec::plain(dtype, shape);
    TensorSpec result_spec = TensorSpec::plain(dtype, reduced_shape(shape, dims, keep));
    if (shape.size() == 4 && seed % 8 == 0) {
      spec = {dtype, shape, contiguous_strides(shape), Layout::channels_last(shape.size())};
      if (keep) result_spec.layout = spec.layout;
    }
    Tensor x = Tensor::with(spec).randomize(random,
                                            is_float               ? -1
                                            : dtype == DType::kU16 ? 0
                                                                   : -9,
                                            is_float ? 1 : 9);
    Tensor y = Tensor::with(result_spec);
    Attributes attributes{{"dims", dims}, {"keep_dims", keep}};
    auto count = static_cast<double>(x.elements()) / static_cast<double>(y.elements());
    std::string what =
        "seed " + std::to_string(seed) + " " + ipu::to_string(shape) + " dims " + ipu::to_string(dims);
    auto compare = [&](const char* id, const std::vector<double>& want, double scale) {
      for_each_vector_isa([&](Isa) {
        run(id, {&x}, {&y}, attributes);
        for (int64_t i = 0; i < y.elements(); ++i) {
          double expected = want[static_cast<size_t>(i)];
          if (!is_float) {
            Tensor wrapped = Tensor::plain(dtype, {});
            wrapped.write(0, static_cast<double>(static_cast<int64_t>(expected) & 0xffffffff));
            if (dtype == DType::kI32)
              wrapped.as<int32_t>()[0] = static_cast<int32_t>(static_cast<int64_t>(expected));
            if (dtype == DType::kI8)
              wrapped.as<int8_t>()[0] = static_cast<int8_t>(static_cast<int64_t>(expected));
            if (dtype == DType::kU16)
              wrapped.as<uint16_t>()[0] = static_cast<uint16_t>(static_cast<int64_t>(expected));
            ASSERT_EQ(y.at(i), wrapped.read(0)) << id << " " << what;
          } else {
            double unit = dtype == DType::kF16 ? 1e-3 : 1.2e-7;
            ASSERT_NEAR(y.at(i), expected, scale * unit * 2 + (dtype == DType::kF16 ? 1e-7 : 0))
                << id << " " << what;
          }
        }
      });
    };
    auto sum = reduce(x, dims, 0, [](double a, double b) { return a + b; });
    compare("reduce_sum", sum, std::max(count, 1.0));
    compare("reduce_max", reduce(x, dims, -kInf, larger), 0);
    compare("reduce_min", reduce(x, dims, kInf, smaller), 0);
    if (is_float) {
      for (double& v : sum) v /= count;
      compare("reduce_mean", sum, 1);
    }
    if (dtype == DType::kF32 || (dtype == DType::kI32 && count < 15))
      compare("reduce_prod", reduce(x, dims, 1, [](double a, double b) { return a * b; }),
              0.5 * std::max(count, 1.0));
    if (HasFatalFailure()) return;
  }
}

// Pixels of few channels, folded several at a time where their number allows: 2 * 49, 25 * 7, 16 * 32 pixels.
TEST(Reduce, ReducesShortRowsOfChannelsLast) {
  std::mt19937 random(7);
  for (const Shape& shape : {Shape{2, 6, 7, 7}, Shape{25, 3, 7, 1}, Shape{16, 64, 4, 8}, Shape{64, 1, 3, 3}})
    for (DType dtype : {DType::kF32, DType::kF16}) {
      TensorSpec spec = TensorSpec::plain(dtype, shape);
      spec.layout = Layout::channels_last(4);
      Tensor x = Tensor::with(spec).randomize(random), y = Tensor::plain(dtype, {shape[1]});
      const std::vector<int64_t> dims{0, 2, 3};
      const std::vector<double> sum = reduce(x, dims, 0.0, std::plus<>()),
                                largest = reduce(x, dims, -kInf, larger);
      const double count = static_cast<double>(x.elements() / shape[1]);
      for_each_vector_isa([&](Isa) {
        for (const char* kind : {"reduce_sum", "reduce_mean", "reduce_max"}) {
          run(kind, {&x}, {&y}, {{"dims", dims}, {"keep_dims", false}});
          for (int64_t c = 0; c < shape[1]; ++c) {
            const double expected = kind == std::string_view("reduce_max") ? largest[static_cast<size_t>(c)]
                                    : kind == std::string_view("reduce_sum")
                                        ? sum[static_cast<size_t>(c)]
                                        : sum[static_cast<size_t>(c)] / count;
            ASSERT_NEAR(y.at(c), expected, (dtype == DType::kF16 ? 2e-3 : 1e-5) * (1.0 + std::abs(expected)))
                << kind << " of " << ipu::to_string(shape);
          }
        }
      });
    }
}

TEST(Reduce, ReducesBooleansByAnyAndAll) {
  std::mt19937 random(1);
  Tensor x = Tensor::plain(DType::kBool, {30, 5, 4}).randomize(random), y = Tensor::plain(DType::kBool, {30});
  run("reduce_any", {&x}, {&y}, {{"dims", Shape{1, 2}}});
  EXPECT_EQ(y.values(), reduce(x, {1, 2}, 0, [](double a, double b) { return a != 0 || b != 0; }));
  Tensor few = Tensor::of(DType::kBool, {3, 2}, {1, 1, 0, 1, 0, 0}), z = Tensor::plain(DType::kBool, {3});
  run("reduce_all", {&few}, {&z}, {{"dims", Shape{1}}});
  EXPECT_EQ(z.values(), (std::vector<double>{1, 0, 0}));
}

TEST(Reduce, NanAndInfinityBehaveAsInTorch) {
  Tensor x = Tensor::of(DType::kF32, {3, 4}, {1, kNan, 3, 2, -kInf, 1, 2, 3, kInf, 1, -kInf, 0}),
         y = Tensor::plain(DType::kF32, {3});
  run("reduce_max", {&x}, {&y}, {{"dims", Shape{1}}});
  EXPECT_TRUE(std::isnan(y.at(0)));
  EXPECT_EQ(y.at(1), 3);
  EXPECT_EQ(y.at(2), kInf);
  run("reduce_sum", {&x}, {&y}, {{"dims", Shape{1}}});
  EXPECT_TRUE(std::isnan(y.at(0)));
  EXPECT_EQ(y.at(1), -kInf);
  EXPECT_TRUE(std::isnan(y.at(2)));
}

TEST(Reduce, NoElementsGiveTheNeutralElement) {
  Tensor x = Tensor::plain(DType::kF32, {3, 0}), y = Tensor::plain(DType::kF32, {3});
  std::vector<std::pair<const char*, double>> want = {{"reduce_sum", 0}, {"reduce_prod", 1}};
  for (auto [id, value] : want) {
    run(id, {&x}, {&y}, {{"dims", Shape{1}}});
    EXPECT_EQ(y.values(), std::vector<double>(3, value)) << id;
  }
  run("reduce_mean", {&x}, {&y}, {{"dims", Shape{1}}});
  EXPECT_TRUE(std::isnan(y.at(0)));
  Tensor none = Tensor::plain(DType::kF32, {0});
  run("reduce_sum", {&x}, {&none}, {{"dims", Shape{0}}});
}

// Long sums: error grows with the logarithm of the length, and lanes and instruction sets do not change a
// bit.
TEST(Reduce, LongSumsAreAccurateAndIndependentOfLanes) {
  std::mt19937 random(2);
  struct Case {
    Shape shape;
    std::vector<int64_t> dims;
  };
  for (const Case& c :
       {Case{{1000003}, {0}}, Case{{7, 70001}, {1}}, Case{{30001, 40}, {0}}, Case{{5000, 300}, {0}},
        Case{{32, 24, 14, 14}, {0, 2, 3}}, Case{{40, 300, 50}, {1}}}) {
    Tensor x = Tensor::plain(DType::kF32, c.shape).randomize(random, 0, 1),
           y = Tensor::plain(DType::kF32, reduced_shape(c.shape, c.dims, false));
    auto want = reduce(x, c.dims, 0, [](double a, double b) { return a + b; });
    std::vector<std::vector<std::byte>> bits;
    for_each_vector_isa([&](Isa) {
      for (bool reversed : {false, true}) {
        auto kernel = prepare("reduce_sum", {&x}, {&y}, {{"dims", c.dims}});
        run(*kernel, {&x}, {&y}, nullptr, reversed);
        bits.push_back(y.bytes);
        for (int64_t i = 0; i < y.elements(); ++i)
          ASSERT_NEAR(y.at(i) / want[static_cast<size_t>(i)], 1.0, 2.5e-7) << ipu::to_string(c.shape);
      }
    });
    for (const auto& other : bits) EXPECT_EQ(other, bits[0]) << ipu::to_string(c.shape);
  }
}

TEST(ArgMax, FirstExtremeElementAndNanBeforeAll) {
  const DType types[] = {DType::kF32, DType::kI32, DType::kF16, DType::kI8, DType::kU8};
  for (unsigned seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    Shape shape;
    for (size_t d = 0, rank = 1 + random() % 3; d < rank; ++d)
      shape.push_back(1 + static_cast<int64_t>(random() % 20));
    auto dim = static_cast<int64_t>(random() % shape.size());
    if (seed % 4 == 0) shape[static_cast<size_t>(dim)] = 3000;
    DType dtype = types[seed % 5];
    TensorSpec spec = seed % 2 ? permuted_spec(dtype, shape, random) : TensorSpec::plain(dtype, shape);
    Tensor x = Tensor::with(spec).randomize(random, 0, dtype == DType::kF32 ? 3 : 40);
    if (dtype == DType::kF32 && seed % 3 == 0)
      for (int64_t i = 0; i < x.elements(); i += 97) x.set(i, kNan);
    bool keep = seed % 2;
    Tensor y = Tensor::plain(DType::kI32, reduced_shape(shape, {dim}, keep));
    Strides strides = contiguous_strides(shape);
    int64_t size = shape[static_cast<size_t>(dim)], inner = strides[static_cast<size_t>(dim)];
    for (bool largest : {true, false}) {
      run(largest ? "argmax" : "argmin", {&x}, {&y}, {{"dim", dim}, {"keep_dims", keep}});
      for (int64_t i = 0; i < y.elements(); ++i) {
        int64_t base = i / inner * inner * size + i % inner, best = 0;
        for (int64_t k = 1; k < size; ++k) {
          double value = x.at(base + k * inner), champion = x.at(base + best * inner);
          if (!std::isnan(champion) && (std::isnan(value) || (largest ? value > champion : value < champion)))
            best = k;
        }
        ASSERT_EQ(y.at(i), static_cast<double>(best)) << "seed " << seed << " " << ipu::to_string(shape);
      }
    }
  }
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
