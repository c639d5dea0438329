// matmul, linear and the gradients of linear against f64 loops, over shapes with remainders, layouts and
// strides.
#include <gtest/gtest.h>

#include "kernels/pointwise/program.h"
#include "tests/kernels/kernel_harness.h"

namespace ipu::kernels {
namespace {

struct Sizes {
  int64_t m, n, k;
};
const std::vector<Sizes> kSizes = {{1, 10, 512}, {1, 512, 784},  {32, 10, 512}, {32, 512, 784}, {7, 5, 3},
                                   {2, 100, 33}, {65, 65, 65},   {3, 64, 64},   {130, 200, 70}, {1, 1, 1},
                                   {4, 1, 900},  {300, 17, 600}, {0, 5, 4},     {5, 0, 4},      {5, 6, 0},
                                   {20, 130, 1}, {9, 33, 1500}};

std::vector<double> product(const Sizes& s, auto a, auto b) {
  std::vector<double> c(static_cast<size_t>(s.m * s.n));
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j)
      for (int64_t p = 0; p < s.k; ++p)
        c[static_cast<size_t>(i * s.n + j)] += double(a(i, p)) * double(b(p, j));
  return c;
}

std::string text(const Sizes& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}

// Chains of at most 512 terms; torch measures 2e-7 to 5e-7 on these shapes.
constexpr double kBound = 6e-7;

TEST(Matmul, matches_f64_for_transposed_and_packed_operands) {
  for (const Sizes& s : kSizes) {
    const Values a = random_values(s.m * s.k, 1), b = random_values(s.k * s.n, 2);
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (bool pack : {false, true}) {
          const Shape as = ta ? Shape{s.k, s.m} : Shape{s.m, s.k},
                      bs = tb ? Shape{s.n, s.k} : Shape{s.k, s.n};
          const auto run = run_kernel("matmul", {f32(as), pack ? packed(bs) : f32(bs)}, {a, b},
                                      {f32({s.m, s.n})}, {{"trans_a", ta}, {"trans_b", tb}});
          ASSERT_TRUE(run.accepted);
          expect_close(run.results[0],
                       product(
                           s,
                           [&](int64_t i, int64_t p) {
                             return a[static_cast<size_t>(ta ? p * s.m + i : i * s.k + p)];
                           },
                           [&](int64_t p, int64_t j) {
                             return b[static_cast<size_t>(tb ? j * s.k + p : p * s.n + j)];
                           }),
                       kBound, text(s) + (ta ? " ta" : "") + (tb ? " tb" : "") + (pack ? " packed" : ""));
        }
  }
}

TEST(Matmul, reads_strided_batches_in_place) {
  // (B, H, S, D) views of a dense (B, S, H, D), as attention has them: q · kᵀ and p · v.
  const int64_t batch = 2, heads = 3, length = 37, depth = 20;
  TensorSpec view = f32({batch, heads, length, depth});
  view.strides = {length * heads * depth, depth, heads * depth, 1};
  const Values q = random_values(batch * heads * length * depth, 1),
               k = random_values(batch * heads * length * depth, 2);
  const auto scores =
      run_kernel("matmul", {view, view}, {q, k}, {f32({batch, heads, length, length})}, {{"trans_b", true}});
  ASSERT_TRUE(scores.accepted);
  std::vector<double> expected;
  for (int64_t bh = 0; bh < batch * heads; ++bh) {
    const auto one = product(
        {length, length, depth}, [&](int64_t i, int64_t p) { return q[(bh * length + i) * depth + p]; },
        [&](int64_t p, int64_t j) { return k[(bh * length + j) * depth + p]; });
    expected.insert(expected.end(), one.begin(), one.end());
  }
  expect_close(scores.results[0], expected, kBound, "scores");

  const Values p = random_values(batch * heads * length * length, 3);
  const auto out = run_kernel("matmul", {f32({batch, heads, length, length}), view}, {p, k}, {view}, {});
  ASSERT_TRUE(out.accepted);
  expected.clear();
  for (int64_t bh = 0; bh < batch * heads; ++bh) {
    const auto one = product(
        {length, depth, length}, [&](int64_t i, int64_t t) { return p[(bh * length + i) * length + t]; },
        [&](int64_t t, int64_t j) { return k[(bh * length + t) * depth + j]; });
    expected.insert(expected.end(), one.begin(), one.end());
  }
  expect_close(out.results[0], expected, kBound, "values");
}

TEST(Matmul, spreads_large_batches_over_lanes) {
  const int64_t batch = 12, s = 128, d = 64;
  const Values q = random_values(batch * s * d, 1), k = random_values(batch * s * d, 2);
  const auto run = run_kernel("matmul", {f32({batch, s, d}), f32({batch, s, d})}, {q, k},
                              {f32({batch, s, s})}, {{"trans_b", true}});
  ASSERT_TRUE(run.accepted);
  EXPECT_GE(run.lanes, 2);
  std::vector<double> expected;
  for (int64_t b = 0; b < batch; ++b) {
    const auto one = product(
        {s, s, d}, [&](int64_t i, int64_t p) { return q[(b * s + i) * d + p]; },
        [&](int64_t p, int64_t j) { return k[(b * s + j) * d + p]; });
    expected.insert(expected.end(), one.begin(), one.end());
  }
  expect_close(run.results[0], expected, kBound, "scores");
}

TEST(Matmul, refuses_what_it_cannot_read) {
  TensorSpec gaps = f32({4, 4});
  gaps.strides = {8, 2};
  EXPECT_FALSE(
      run_kernel("matmul", {gaps, f32({4, 4})}, {Values(16), Values(16)}, {f32({4, 4})}, {}).accepted);
  const TensorSpec whole = TensorSpec::plain(DType::kI32, {4, 4});
  const std::vector<TensorSpec> operands = {whole, f32({4, 4})}, results = {f32({4, 4})};
  EXPECT_EQ(find_kernel("matmul")->prepare({operands, results, {}}), nullptr);
}

TEST(Linear, forward_matches_f64_for_plain_and_packed_weights) {
  for (const Sizes& s : kSizes)
    for (bool pack : {false, true})
      for (bool has_bias : {false, true})
        for (bool relu : {false, true}) {
          const Values x = random_values(s.m * s.k, 1), w = random_values(s.k * s.n, 2),
                       bias = random_values(s.n, 3);
          auto expected = product(
              s, [&](int64_t i, int64_t p) { return x[static_cast<size_t>(i * s.k + p)]; },
              [&](int64_t p, int64_t j) { return w[static_cast<size_t>(pack ? p * s.n + j : j * s.k + p)]; });
          for (size_t i = 0; i < expected.size(); ++i) {
            if (has_bias) expected[i] += bias[i % static_cast<size_t>(s.n)];
            if (relu && expected[i] < 0) expected[i] = 0;
          }
          const auto run = run_kernel(
              "linear",
              {f32({s.m, s.k}), pack ? packed({s.k, s.n}) : f32({s.n, s.k}), has_bias ? f32({s.n}) : f32({})},
              {x, w, has_bias ? bias : Values{}}, {f32({s.m, s.n})},
              {{"weight_packed", pack}, {"activation", relu ? "relu" : "none"}});
          ASSERT_TRUE(run.accepted);
          expect_close(run.results[0], expected, kBound, text(s) + (pack ? " packed" : ""));
        }
}

// The sums may come from tiles, dots or strips: what ends them is the same.
TEST(Linear, gelu_and_addend_have_the_bits_of_the_ops_they_stand_for) {
  const Attributes gelu = PointwiseProgram{
      .code = {{.code = OpCode::kLoad}, {.code = OpCode::kGeluF, .a = 0}},
      .outputs = {1}}.to_attributes();
  for (const Sizes& s : kSizes)
    for (bool pack : {false, true}) {
      if (s.m * s.n == 0) continue;
      const TensorSpec w_spec = pack ? packed({s.k, s.n}) : f32({s.n, s.k}), y = f32({s.m, s.n});
      const Values x = random_values(s.m * s.k, 1), w = random_values(s.n * s.k, 2),
                   bias = random_values(s.n, 3), addend = random_values(s.m * s.n, 4);
      const std::string what = text(s) + (pack ? " packed" : "");
      const auto sums = run_kernel("linear", {f32({s.m, s.k}), w_spec, f32({s.n})}, {x, w, bias}, {y}, {});
      Values expected = run_kernel("pointwise", {y}, {sums.results[0]}, {y}, gelu).results[0];
      const auto activated = run_kernel("linear", {f32({s.m, s.k}), w_spec, f32({s.n})}, {x, w, bias}, {y},
                                        {{"activation", "gelu"}});
      ASSERT_TRUE(activated.accepted) << what;
      EXPECT_TRUE(same_bits(activated.results[0], expected)) << what;
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += addend[i];
      const auto added = run_kernel("linear", {f32({s.m, s.k}), w_spec, f32({s.n}), y}, {x, w, bias, addend},
                                    {y}, {{"activation", "gelu"}});
      ASSERT_TRUE(added.accepted) << what;
      EXPECT_TRUE(same_bits(added.results[0], expected)) << what;
    }
}

TEST(Linear, refuses_an_addend_of_another_type) {
  const TensorSpec x = as_half(f32({2, 3})), w = as_half(f32({4, 3})), y = as_half(f32({2, 4}));
  const Values a(6, 1.0f), b(12, 1.0f), c(8, 1.0f);
  const auto accepts = [&](const TensorSpec& addend) {
    return run_kernel("linear", {x, w, as_half(f32({4})), addend}, {a, b, Values(4, 1.0f), c}, {y}, {})
        .accepted;
  };
  EXPECT_TRUE(accepts(y));
  EXPECT_FALSE(accepts(f32({2, 4})));
}

TEST(Linear, relu_lets_nan_through) {
  const auto run = run_kernel("linear", {f32({1, 2}), f32({20, 2})}, {Values{NAN, 1}, Values(40, 1.0f)},
                              {f32({1, 20})}, {{"activation", "relu"}});
  ASSERT_TRUE(run.accepted);
  for (float y : run.results[0]) EXPECT_TRUE(std::isnan(y));
}

TEST(Linear, input_gradient_matches_f64_for_plain_and_packed_weights) {
  for (const Sizes& s : kSizes)
    for (bool pack : {false, true}) {
      const Values dy = random_values(s.m * s.n, 1), w = random_values(s.k * s.n, 2);
      const auto run =
          run_kernel("linear_input_gradient", {f32({s.m, s.n}), pack ? packed({s.k, s.n}) : f32({s.n, s.k})},
                     {dy, w}, {f32({s.m, s.k})}, {});
      ASSERT_TRUE(run.accepted);
      expect_close(
          run.results[0],
          product(
              {s.m, s.k, s.n}, [&](int64_t i, int64_t p) { return dy[static_cast<size_t>(i * s.n + p)]; },
              [&](int64_t p, int64_t j) { return w[static_cast<size_t>(pack ? j * s.n + p : p * s.k + j)]; }),
          kBound, text(s) + (pack ? " packed" : ""));
    }
}

TEST(Linear, weight_gradient_matches_f64_and_keeps_padding_zero) {
  for (const Sizes& s : kSizes)
    for (bool pack : {false, true}) {
      const Values x = random_values(s.m * s.k, 1), dy = random_values(s.m * s.n, 2);
      const TensorSpec result = pack ? packed({s.k, s.n}) : f32({s.n, s.k});
      const auto run =
          run_kernel("linear_weight_gradient", {f32({s.m, s.k}), f32({s.m, s.n})}, {x, dy}, {result}, {});
      ASSERT_TRUE(run.accepted);
      const int64_t rows = pack ? s.k : s.n, columns = pack ? s.n : s.k;
      const Values &left = pack ? x : dy, &right = pack ? dy : x;
      expect_close(run.results[0],
                   product(
                       {rows, columns, s.m},
                       [&](int64_t i, int64_t p) { return left[static_cast<size_t>(p * rows + i)]; },
                       [&](int64_t p, int64_t j) { return right[static_cast<size_t>(p * columns + j)]; }),
                   kBound, text(s) + (pack ? " packed" : ""));
      for (float v : run.stored[0]) EXPECT_FALSE(std::isnan(v)) << text(s) << ": padding was not written";
    }
}

TEST(Linear, rows_may_be_a_strided_slice) {
  TensorSpec x = f32({2, 3, 8});
  x.strides = {3 * 24, 24, 1};
  const Values values = random_values(48, 1), w = random_values(40, 2);
  const auto run = run_kernel("linear", {x, f32({5, 8})}, {values, w}, {f32({2, 3, 5})}, {});
  ASSERT_TRUE(run.accepted);
  expect_close(run.results[0],
               product(
                   {6, 5, 8}, [&](int64_t i, int64_t p) { return values[static_cast<size_t>(i * 8 + p)]; },
                   [&](int64_t p, int64_t j) { return w[static_cast<size_t>(j * 8 + p)]; }),
               kBound, "slice");
}

}  // namespace
}  // namespace ipu::kernels
