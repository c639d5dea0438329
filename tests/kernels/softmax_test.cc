// Softmax, log-softmax, the classification losses and their gradients against f64 formulas.
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

struct Walk {  // one slice of a tensor along dim
  int64_t size, step, outer, inner;
  Walk(const Shape& shape, int64_t dim) : size(1), step(1), outer(1), inner(1) {
    for (size_t d = 0; d < shape.size(); ++d)
      (static_cast<int64_t>(d) < dim ? outer : static_cast<int64_t>(d) == dim ? size : inner) *= shape[d];
    step = inner;
  }
  int64_t slices() const { return outer * inner; }
  int64_t at(int64_t slice, int64_t k) const { return (slice / inner * size + k) * inner + slice % inner; }
};

std::vector<double> log_softmax(const Tensor& x, int64_t dim) {
  Walk w(x.spec.shape, dim);
  std::vector<double> out(static_cast<size_t>(x.elements()));
  for (int64_t s = 0; s < w.slices(); ++s) {
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < w.size; ++k) largest = std::max(largest, x.at(w.at(s, k)));
    for (int64_t k = 0; k < w.size; ++k) sum += std::exp(x.at(w.at(s, k)) - largest);
    for (int64_t k = 0; k < w.size; ++k)
      out[static_cast<size_t>(w.at(s, k))] = x.at(w.at(s, k)) - largest - std::log(sum);
  }
  return out;
}

void expect_near(const Tensor& got, const std::vector<double>& want, double relative, double absolute,
                 const std::string& what) {
  for (int64_t i = 0; i < got.elements(); ++i) {
    double w = want[static_cast<size_t>(i)];
    if (std::isnan(w) && std::isnan(got.at(i))) continue;
    ASSERT_NEAR(got.at(i), w, std::fabs(w) * relative + absolute) << what << " element " << i;
  }
}

struct Form {
  Shape shape;
  int64_t dim;
  DType dtype = DType::kF32;
  Layout layout = Layout::kPlain;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> list = {
      {{5, 10}, 1},
      {{3, 1}, 1},
      {{4, 3000}, 1},
      {{7, 33}, 0},
      {{2, 5, 70}, 1},
      {{2, 2000, 37}, 1},
      {{3, 4, 17, 128}, 3},
      {{6, 9}, 1, DType::kF16},
      {{2, 30, 19}, 1, DType::kF16},
      {{2, 6, 5, 4}, 1, DType::kF32, Layout::channels_last(4)},
      {{2, 6, 5, 4}, 2, DType::kF32, Layout::channels_last(4)},
      {{1}, 0},
      {{257, 300}, 1},
  };
  return list;
}

TEST(Softmax, ForwardAndGradientsAlongAnyDimension) {
  std::mt19937 random(1);
  for (const Form& f : forms()) {
    TensorSpec spec{f.dtype, f.shape, contiguous_strides(f.shape), f.layout};
    Tensor x = Tensor::with(spec).randomize(random, -8, 8), y = Tensor::with(spec),
           dy = Tensor::with(spec).randomize(random), dx = y;
    Attributes attributes{{"dim", f.dim}};
    std::string what = ipu::to_string(f.shape) + " dim " + std::to_string(f.dim);
    // x - max is rounded at up to 16: its exponential has that error relatively.
    double unit = f.dtype == DType::kF16 ? 6e-4 : 1.5e-6, tiny = f.dtype == DType::kF16 ? 1e-7 : 1e-30;
    auto logs = log_softmax(x, f.dim), probabilities = logs;
    for (double& p : probabilities) p = std::exp(p);
    Walk w(f.shape, f.dim);
    std::vector<std::vector<std::byte>> bits;
    for_each_vector_isa([&](Isa) {
      run("softmax", {&x}, {&y}, attributes);
      expect_near(y, probabilities, unit, tiny, what);
      bits.push_back(y.bytes);
    });
    for (const auto& other : bits) EXPECT_EQ(other, bits[0]) << what;
    run("softmax_gradient", {&y, &dy}, {&dx}, attributes);
    std::vector<double> want(logs.size());
    for (int64_t s = 0; s < w.slices(); ++s) {
      double sum = 0;
      for (int64_t k = 0; k < w.size; ++k) sum += y.at(w.at(s, k)) * dy.at(w.at(s, k));
      for (int64_t k = 0; k < w.size; ++k)
        want[static_cast<size_t>(w.at(s, k))] = (dy.at(w.at(s, k)) - sum) * y.at(w.at(s, k));
    }
    expect_near(dx, want, unit, unit, what + " gradient");
    run("log_softmax", {&x}, {&y}, attributes);
    expect_near(y, logs, unit, unit, what + " log");
    run("log_softmax_gradient", {&y, &dy}, {&dx}, attributes);
    for (int64_t s = 0; s < w.slices(); ++s) {
      double sum = 0;
      for (int64_t k = 0; k < w.size; ++k) sum += dy.at(w.at(s, k));
      for (int64_t k = 0; k < w.size; ++k)
        want[static_cast<size_t>(w.at(s, k))] = dy.at(w.at(s, k)) - std::exp(y.at(w.at(s, k))) * sum;
    }
    expect_near(dx, want, unit * 2, unit * 3, what + " log gradient");
    if (testing::Test::HasFatalFailure()) return;

    Tensor in_place = x;
    run("softmax", {&in_place}, {&in_place}, attributes);
    run("softmax", {&x}, {&y}, attributes);
    EXPECT_EQ(in_place.bytes, y.bytes) << what;
  }
}

TEST(Softmax, RowsWithoutAFiniteMaximumAreNan) {
  Tensor x = Tensor::of(DType::kF32, {2, 2}, {-INFINITY, -INFINITY, INFINITY, 1}),
         y = Tensor::plain(DType::kF32, {2, 2});
  run("softmax", {&x}, {&y}, {{"dim", int64_t{1}}});
  EXPECT_TRUE(std::isnan(y.at(0)) && std::isnan(y.at(1)) && std::isnan(y.at(2)));
  Tensor masked = Tensor::of(DType::kF32, {1, 3}, {-INFINITY, 0, 0}), z = Tensor::plain(DType::kF32, {1, 3});
  run("softmax", {&masked}, {&z}, {{"dim", int64_t{1}}});
  EXPECT_EQ(z.values(), (std::vector<double>{0, 0.5, 0.5}));
}

// Short rows, long rows, columns and halves are computed in different places.
TEST(Softmax, SlicesOfMinusInfinityGiveZerosWhereThatIsAsked) {
  for (const DType dtype : {DType::kF32, DType::kF16})
    for (const auto& [shape, dim] : {std::pair<Shape, int64_t>{{3, 20}, 1}, {{3, 1500}, 1}, {{20, 3}, 0}}) {
      std::mt19937 random(5);
      Tensor x = Tensor::plain(dtype, shape).randomize(random, -4, 4), y = Tensor::plain(dtype, shape), z = y;
      const Walk w(shape, dim);
      std::vector<double> values = x.values();
      for (int64_t k = 0; k < w.size; ++k) values[static_cast<size_t>(w.at(1, k))] = -INFINITY;
      x = Tensor::of(dtype, shape, values);
      run("softmax", {&x}, {&y}, {{"dim", dim}});
      run("softmax", {&x}, {&z}, {{"dim", dim}, {"zero_blocked", true}});
      for (int64_t k = 0; k < w.size; ++k) {
        EXPECT_TRUE(std::isnan(y.at(w.at(1, k))));
        EXPECT_EQ(z.at(w.at(1, k)), 0.0);
        for (const int64_t s : {0, 2}) EXPECT_EQ(z.at(w.at(s, k)), y.at(w.at(s, k)));  // the same bits
      }
      values[static_cast<size_t>(w.at(1, 2))] = NAN;
      x = Tensor::of(dtype, shape, values);
      run("softmax", {&x}, {&z}, {{"dim", dim}, {"zero_blocked", true}});
      EXPECT_TRUE(std::isnan(z.at(w.at(1, 0))));
    }
}

TEST(CrossEntropy, LossesAndGradientsForEveryReduction) {
  std::mt19937 random(2);
  for (const Form& f : forms()) {
    if (f.dim != 1 && f.shape.size() != 1) continue;
    TensorSpec spec{f.dtype, f.shape, contiguous_strides(f.shape), f.layout};
    Tensor x = Tensor::with(spec).randomize(random, -4, 4), dx = Tensor::with(spec);
    Shape target_shape = f.shape;
    target_shape.erase(target_shape.begin() + f.dim);
    Walk w(f.shape, f.dim);
    Tensor target =
        Tensor::plain(DType::kI32, target_shape).randomize(random, 0, static_cast<double>(w.size));
    if (w.slices() > 3) target.set(2, -100);
    auto logs = log_softmax(x, f.dim);
    double unit = f.dtype == DType::kF16 ? 1e-3 : 1e-6;
    for (bool softmax : {true, false})
      for (double smoothing : {0.0, 0.1})
        for (std::string reduction : {"mean", "sum", "none"}) {
          if (!softmax && smoothing != 0) continue;
          std::string what =
              ipu::to_string(f.shape) + " " + reduction + (softmax ? " cross_entropy" : " nll");
          Attributes attributes{
              {"ignore_index", int64_t{-100}}, {"reduction", reduction}, {"label_smoothing", smoothing}};
          double total = 0, count = 0;
          std::vector<double> each;
          for (int64_t s = 0; s < w.slices(); ++s) {
            double t = target.at(s), value = 0;
            if (t >= 0) {
              ++count;
              int64_t at = w.at(s, static_cast<int64_t>(t));
              value = softmax ? -(1 - smoothing) * logs[static_cast<size_t>(at)] : -x.at(at);
              for (int64_t k = 0; softmax && k < w.size; ++k)
                value -= smoothing / static_cast<double>(w.size) * logs[static_cast<size_t>(w.at(s, k))];
            }
            each.push_back(value);
            total += value;
          }
          bool none = reduction == "none";
          Tensor loss = Tensor::plain(f.dtype, none ? target_shape : Shape{}), dy = loss;
          dy.randomize(random);
          run(softmax ? "cross_entropy" : "nll_loss", {&x, &target}, {&loss}, attributes);
          double scale = reduction == "sum" ? count : 1;
          if (none)
            expect_near(loss, each, unit * 4, unit * 4, what);
          else
            ASSERT_NEAR(loss.at(0), reduction == "mean" ? total / count : total, unit * 8 * scale) << what;
          run(softmax ? "cross_entropy_gradient" : "nll_loss_gradient", {&dy, &x, &target}, {&dx},
              attributes);
          std::vector<double> want(logs.size());
          for (int64_t s = 0; s < w.slices(); ++s) {
            double t = target.at(s), up = dy.at(none ? s : 0) / (reduction == "mean" ? count : 1);
            for (int64_t k = 0; k < w.size; ++k) {
              double p = softmax ? std::exp(logs[static_cast<size_t>(w.at(s, k))]) -
                                       smoothing / static_cast<double>(w.size)
                                 : 0;
              want[static_cast<size_t>(w.at(s, k))] = t < 0 ? 0 : (p - (k == t ? 1 - smoothing : 0)) * up;
            }
          }
          expect_near(dx, want, unit, unit, what + " gradient");
          if (testing::Test::HasFatalFailure()) return;
        }
  }
}

TEST(CrossEntropy, AllIgnoredIsNanAndWrongClassesAreReported) {
  Tensor x = Tensor::of(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), loss = Tensor::plain(DType::kF32, {}),
         dx = x;
  Tensor ignored = Tensor::of(DType::kI32, {2}, {-100, -100}), wrong = Tensor::of(DType::kI32, {2}, {1, 3});
  run("cross_entropy", {&x, &ignored}, {&loss});
  EXPECT_TRUE(std::isnan(loss.at(0)));
  KernelFault fault;
  run("cross_entropy", {&x, &wrong}, {&loss}, {}, &fault);
  ASSERT_TRUE(fault.raised());
  EXPECT_EQ(fault.message(), "index out of range: index 3 (element 1 of 'target') is not in [0, 3).");
  fault.clear();
  EXPECT_FALSE(fault.raised());
  Tensor dy = Tensor::of(DType::kF32, {}, {1});
  run("nll_loss_gradient", {&dy, &x, &wrong}, {&dx}, {}, &fault);
  EXPECT_TRUE(fault.raised());
  EXPECT_EQ(dx.values(), (std::vector<double>{0, -0.5, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
