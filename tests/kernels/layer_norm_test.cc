// Layer norm and its gradient against f64 formulas: the same bits on every instruction set and for every order of
// lanes, parameters that are absent, halves, and what the kernels refuse.
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

struct Form {
  Shape shape;
  int64_t axis;
  DType dtype = DType::kF32;
  bool has_weight = true, has_bias = true;

  int64_t rows() const {
    int64_t n = 1;
    for (int64_t d = 0; d < axis; ++d) n *= shape[static_cast<size_t>(d)];
    return n;
  }
  int64_t columns() const { return element_count(shape) / rows(); }
  Shape normalized() const { return {shape.begin() + axis, shape.end()}; }
  Shape statistic() const {
    Shape kept = shape;
    for (size_t d = static_cast<size_t>(axis); d < kept.size(); ++d) kept[d] = 1;
    return kept;
  }
  std::string text() const {
    return ipu::to_string(shape) + " from axis " + std::to_string(axis) +
           (dtype == DType::kF16 ? " f16" : "");
  }
};
const std::vector<Form>& forms() {
  static const std::vector<Form> list = {
      {{4, 8}, 1},
      {{3, 1}, 1},
      {{1, 7}, 1},
      {{5, 64}, 1, DType::kF32, true, false},
      {{7, 129}, 1, DType::kF32, false, true},
      {{2, 200, 96}, 2},
      {{300, 33}, 1, DType::kF32, false, false},
      {{6, 3, 5, 4}, 2},
      {{3, 10000}, 1},
      {{50, 512}, 1, DType::kF16},
      {{270, 70}, 1, DType::kF16},
      {{9, 31}, 1, DType::kF16, false, false},
  };
  return list;
}

// Operands of a form, filled at random, and what the gradient must be.
struct Problem {
  explicit Problem(const Form& f)
      : form(f),
        x(Tensor::plain(f.dtype, f.shape)),
        weight(Tensor::plain(f.dtype, f.normalized())),
        bias(Tensor::plain(f.dtype, f.normalized())),
        dy(Tensor::plain(f.dtype, f.shape)),
        y(x),
        mean(Tensor::plain(DType::kF32, f.statistic())),
        rstd(mean) {
    std::mt19937 random(3);
    x.randomize(random, -2, 4);
    weight.randomize(random, 0.5, 1.5);
    bias.randomize(random);
    dy.randomize(random);
  }
  const Tensor* weight_or_none() const { return form.has_weight ? &weight : nullptr; }
  const Tensor* bias_or_none() const { return form.has_bias ? &bias : nullptr; }
  Attributes attributes() const { return {{"axis", form.axis}, {"eps", 1e-3}}; }
  void run_forward() {
    run("layer_norm", {&x, weight_or_none(), bias_or_none()}, {&y, &mean, &rstd}, attributes());
  }
  double normalized(int64_t row, int64_t column) const {
    return (x.at(row * form.columns() + column) - mean.at(row)) * rstd.at(row);
  }
  double slope(int64_t row, int64_t column) const {
    return dy.at(row * form.columns() + column) * (form.has_weight ? weight.at(column) : 1.0);
  }

  Form form;
  Tensor x, weight, bias, dy, y, mean, rstd;
};

void expect_near(const Tensor& got, const std::vector<double>& want, double bound, const std::string& what) {
  for (int64_t i = 0; i < got.elements(); ++i)
    ASSERT_NEAR(got.at(i), want[static_cast<size_t>(i)],
                bound * std::max(1.0, std::fabs(want[static_cast<size_t>(i)])))
        << what << " element " << i;
}
double unit(const Form& f) { return f.dtype == DType::kF16 ? 6e-4 : 2e-6; }

TEST(LayerNorm, NormalizesRowsWithTheSameBitsEverywhere) {
  for (const Form& f : forms()) {
    Problem p(f);
    std::vector<std::vector<std::byte>> bits;
    for_each_vector_isa([&](Isa) {
      p.run_forward();
      for (const Tensor* t : {&p.y, &p.mean, &p.rstd}) bits.push_back(t->bytes);
    });
    for (size_t i = 3; i < bits.size(); ++i) EXPECT_EQ(bits[i], bits[i % 3]) << f.text();
    std::vector<double> y, means, rstds;
    const int64_t n = f.columns();
    for (int64_t r = 0; r < f.rows(); ++r) {
      double mean = 0, variance = 0;
      for (int64_t c = 0; c < n; ++c) mean += p.x.at(r * n + c) / static_cast<double>(n);
      for (int64_t c = 0; c < n; ++c)
        variance += (p.x.at(r * n + c) - mean) * (p.x.at(r * n + c) - mean) / static_cast<double>(n);
      means.push_back(mean);
      rstds.push_back(1 / std::sqrt(variance + 1e-3));
      for (int64_t c = 0; c < n; ++c)
        y.push_back((p.x.at(r * n + c) - mean) * rstds.back() * (f.has_weight ? p.weight.at(c) : 1.0) +
                    (f.has_bias ? p.bias.at(c) : 0.0));
    }
    expect_near(p.mean, means, 1e-6, f.text());
    expect_near(p.rstd, rstds, 1e-6, f.text());
    expect_near(p.y, y, unit(f), f.text());
  }
}

TEST(LayerNorm, GradientsAreSumsOfFixedPieces) {
  for (const Form& f : forms()) {
    Problem p(f);
    p.run_forward();
    Tensor dx = p.x, dweight = p.weight, dbias = p.bias;
    const std::vector<const Tensor*> operands{
        &p.x, p.weight_or_none(), p.bias_or_none(), &p.mean, &p.rstd, &p.dy, nullptr, nullptr};
    Attributes attributes = p.attributes();
    attributes.set("wants", std::vector<int64_t>{0, 1, 2});
    std::vector<std::vector<std::byte>> bits;
    for_each_vector_isa([&](Isa) {
      for (bool reversed : {false, true}) {
        auto kernel = prepare("layer_norm_gradient", operands, {&dx, &dweight, &dbias}, attributes);
        ASSERT_NE(kernel, nullptr) << f.text();
        run(*kernel, operands, {&dx, &dweight, &dbias}, nullptr, reversed);
        for (const Tensor* t : {&dx, &dweight, &dbias}) bits.push_back(t->bytes);
      }
    });
    for (size_t i = 3; i < bits.size(); ++i) EXPECT_EQ(bits[i], bits[i % 3]) << f.text();
    const int64_t n = f.columns();
    std::vector<double> want_x, want_weight(static_cast<size_t>(n)), want_bias(want_weight);
    for (int64_t r = 0; r < f.rows(); ++r) {
      double mean = 0, product = 0;
      for (int64_t c = 0; c < n; ++c) {
        mean += p.slope(r, c) / static_cast<double>(n);
        product += p.slope(r, c) * p.normalized(r, c) / static_cast<double>(n);
        want_weight[static_cast<size_t>(c)] += p.dy.at(r * n + c) * p.normalized(r, c);
        want_bias[static_cast<size_t>(c)] += p.dy.at(r * n + c);
      }
      for (int64_t c = 0; c < n; ++c)
        want_x.push_back(p.rstd.at(r) * (p.slope(r, c) - mean - p.normalized(r, c) * product));
    }
    expect_near(dx, want_x, 5 * unit(f), f.text());
    expect_near(dweight, want_weight, 5 * unit(f), f.text());
    expect_near(dbias, want_bias, 5 * unit(f), f.text());
    // Each gradient alone has the same bits.
    const std::vector<Tensor*> all{&dx, &dweight, &dbias};
    for (int64_t i = 0; i < 3; ++i) {
      Tensor alone = *all[static_cast<size_t>(i)];
      attributes.set("wants", std::vector<int64_t>{i});
      run("layer_norm_gradient", operands, {&alone}, attributes);
      EXPECT_EQ(alone.bytes, all[static_cast<size_t>(i)]->bytes) << f.text() << " gradient " << i;
    }
  }
}

TEST(LayerNorm, ALongRowKeepsItsMean) {
  Problem p({{2, 300000}, 1});
  for (int64_t i = 0; i < p.x.elements(); ++i) p.x.set(i, 1000.0 + (i % 2 == 0 ? 1 : -1));
  p.run_forward();
  for (int64_t r : {0, 1}) {
    EXPECT_NEAR(p.mean.at(r), 1000.0, 1e-3);
    EXPECT_NEAR(p.rstd.at(r), 1 / std::sqrt(1 + 1e-3), 1e-6);
  }
}

TEST(LayerNorm, RefusesWhatItCannotRead) {
  Problem p({{4, 8}, 1});
  const Tensor wide = Tensor::plain(DType::kF32, {4, 8}), half = Tensor::plain(DType::kF16, {8});
  EXPECT_EQ(prepare("layer_norm", {&p.x, &wide}, {&p.y, &p.mean, &p.rstd}, p.attributes()), nullptr);
  EXPECT_EQ(prepare("layer_norm", {&p.x, &half}, {&p.y, &p.mean, &p.rstd}, p.attributes()), nullptr);
  const Tensor scalar = Tensor::plain(DType::kF32, {});
  EXPECT_EQ(prepare("layer_norm", {&p.x, &scalar}, {&p.y, &p.mean, &p.rstd}, p.attributes()), nullptr)
      << "it is there, and has not one element for each column";
  const Tensor turned = Tensor::with({DType::kF32, {4, 8}, {1, 4}, Layout::kPlain});
  EXPECT_EQ(prepare("layer_norm", {&turned}, {&p.y, &p.mean, &p.rstd}, p.attributes()), nullptr);
  Attributes wants = p.attributes();
  wants.set("wants", std::vector<int64_t>{0});
  EXPECT_EQ(prepare("layer_norm_gradient", {&p.x, nullptr, nullptr, &p.mean, &p.rstd, &p.dy, &p.mean}, {&p.y},
                    wants),
            nullptr)
      << "a gradient of the mean";
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
