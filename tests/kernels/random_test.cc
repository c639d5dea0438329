// Random numbers by position: equal to Philox element by element, the same in pieces and on every instruction
// set, distributed as they should be.
#include <algorithm>

#include "kernels/random/random_fill.h"
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

const RandomStream kStream{{0x12345678u, 0x9abcdef0u}, 5};

std::vector<uint32_t> bits(const RandomStream& stream, int64_t first, int64_t count) {
  std::vector<uint32_t> values(static_cast<size_t>(count));
  random_fill().bits(stream, first, count, values.data());
  return values;
}

TEST(RandomFill, ElementIsAWordOfItsCounter) {
  // The second begins where the low half of the counter goes over.
  for (int64_t first : {int64_t{0}, (int64_t{1} << 34) - 40}) {
    const std::vector<uint32_t> values = bits(kStream, first, 1000);
    for (int64_t i = 0; i < 1000; ++i) {
      const auto counter = static_cast<uint64_t>(first + i) / 4;
      const PhiloxCounter word = philox4x32(
          {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 5, 0}, kStream.seed);
      ASSERT_EQ(values[static_cast<size_t>(i)], word[static_cast<size_t>(i % 4)]) << first << " + " << i;
    }
  }
}

TEST(RandomFill, APartOfAStreamIsTheSameAsInTheWhole) {
  const int64_t count = 3001;
  std::vector<float> whole(count), part(count), whole_normal(count);
  random_fill().uniform(kStream, 0, count, -1, 2, 24, whole.data());
  random_fill().normal(kStream, 0, count, 1, 3, whole_normal.data());
  for (int64_t first : {4, 128, 516, 2996})
    for (int64_t n : {int64_t{1}, int64_t{3}, count - first}) {
      n = std::min(n, count - first);
      random_fill().uniform(kStream, first, n, -1, 2, 24, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.begin() + n, whole.begin() + first)) << first;
      random_fill().normal(kStream, first, n, 1, 3, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.begin() + n, whole_normal.begin() + first)) << first;
    }
}

TEST(RandomFill, UniformComesFromTheUpperBits) {
  const int64_t count = 700;
  const std::vector<uint32_t> raw = bits(kStream, 0, count);
  std::vector<float> fine(count), coarse(count);
  random_fill().uniform(kStream, 0, count, 0, 1, 24, fine.data());
  random_fill().uniform(kStream, 0, count, 0, 1, 11, coarse.data());
  for (size_t i = 0; i < raw.size(); ++i) {
    EXPECT_EQ(fine[i], uniform_float(raw[i]));
    EXPECT_EQ(coarse[i], static_cast<float>(raw[i] >> 21) * 0x1p-11f);
  }
}

TEST(RandomFill, NormalIsBoxAndMullerOfPairs) {
  const int64_t count = 4000;
  const std::vector<uint32_t> raw = bits(kStream, 0, count);
  std::vector<float> z(count);
  random_fill().normal(kStream, 0, count, 0, 1, z.data());
  for (size_t i = 0; i < raw.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(((raw[i] >> 8) + 1) * 0x1p-24));
    const double angle = 2 * M_PI * (raw[i + 1] >> 8) * 0x1p-24;
    EXPECT_NEAR(z[i], radius * std::cos(angle), 2e-6) << i;
    EXPECT_NEAR(z[i + 1], radius * std::sin(angle), 2e-6) << i;
  }
}

// Largest distance of the sample's distribution from `cdf`, times sqrt(n): above 1.95 once in a thousand
// samples.
template <typename Cdf>
double kolmogorov_smirnov(std::vector<float> sample, Cdf cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double distance = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double expected = cdf(sample[i]);
    distance = std::max({distance, std::fabs(expected - static_cast<double>(i) / n),
                         std::fabs(static_cast<double>(i + 1) / n - expected)});
  }
  return distance * std::sqrt(n);
}

TEST(RandomFill, DistributionsPassKolmogorovSmirnov) {
  const int64_t count = 200000;
  std::vector<float> values(count);
  for (int64_t id = 0; id < 4; ++id) {
    random_fill().uniform({kStream.seed, id}, 0, count, 0, 1, 24, values.data());
    EXPECT_LT(kolmogorov_smirnov(values, [](double x) { return x; }), 1.95) << id;
    random_fill().normal({kStream.seed, id}, 0, count, 0, 1, values.data());
    EXPECT_LT(kolmogorov_smirnov(values, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }), 1.95)
        << id;
  }
}

TEST(RandomFill, StreamsAndSeedsAreIndependent) {
  const int64_t count = 100000;
  std::vector<float> a(count), b(count);
  auto correlation = [&](const RandomStream& x, const RandomStream& y) {
    random_fill().normal(x, 0, count, 0, 1, a.data());
    random_fill().normal(y, 0, count, 0, 1, b.data());
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
    return sum / std::sqrt(static_cast<double>(count));
  };
  EXPECT_LT(std::fabs(correlation({{1, 0}, 0}, {{1, 0}, 1})), 4);
  EXPECT_LT(std::fabs(correlation({{1, 0}, 0}, {{2, 0}, 0})), 4);
  EXPECT_LT(std::fabs(correlation({derive_seed({1, 0}, 0), 0}, {derive_seed({1, 0}, 1), 0})), 4);
}

TEST(RandomFill, PermutationHoldsEveryNumberOnceAndFavoursNone) {
  std::vector<int32_t> order(5000);
  extend_permutation(kStream, 0, 5000, order.data());
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int32_t i = 0; i < 5000; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], i);
  // All 24 orders of four numbers about equally often: chi-squared with 23 degrees of freedom.
  std::map<std::vector<int32_t>, int> counts;
  for (int64_t id = 0; id < 24000; ++id) {
    std::vector<int32_t> few(4);
    extend_permutation({kStream.seed, id}, 0, 4, few.data());
    ++counts[few];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi = 0;
  for (const auto& [few, n] : counts) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_LT(chi, 49.7);  // exceeded once in a thousand
}

TEST(RandomFill, KeepsTheStatedFractionOfADropout) {
  EXPECT_EQ(last_kept(0.0), 0xffffffffu);
  EXPECT_EQ(last_kept(0.5), 0x7fffffffu);
  EXPECT_EQ(keep_scale(1.0), 0.0f);
  const int64_t count = 100000;
  for (double p : {0.1, 0.5, 0.9, 1.0}) {
    std::vector<float> x(count, 2.0f);
    random_fill().dropout(kStream, 0, count, p, x.data(), x.data());
    int64_t kept = 0;
    for (float value : x) {
      ASSERT_TRUE(value == 0.0f || value == 2.0f * keep_scale(p));
      kept += value != 0.0f;
    }
    EXPECT_NEAR(static_cast<double>(kept), (1 - p) * count, 4 * std::sqrt(count * p * (1 - p)) + 1e-9) << p;
  }
}

TEST(RandomKernels, GiveTheSameBitsOnEveryInstructionSetWithFusedMultiplyAdd) {
  const int64_t count = 5003;
  const Isa best = active_isa();
  std::vector<std::vector<float>> results;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa > best) continue;
    set_active_isa(isa);
    std::vector<float> values(3 * count, 1.0f);
    random_fill().uniform(kStream, 0, count, -3, 4, 24, values.data());
    random_fill().normal(kStream, 0, count, -3, 4, values.data() + count);
    random_fill().dropout(kStream, 0, count, 0.3, values.data() + 2 * count, values.data() + 2 * count);
    results.push_back(values);
  }
  set_active_isa(best);
  for (const auto& values : results) EXPECT_EQ(values, results[0]);
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
