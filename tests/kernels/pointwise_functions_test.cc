// Accuracy of the VM's functions against f64 over wide ranges, their special values, and equal bits on AVX2
// and AVX-512.
#include <limits>

#include "kernels/pointwise/program.h"
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  OpCode code;
  double (*exact)(double);
  double low, high;       // dense range
  double bound;           // ulp
  bool absolute = false;  // results below 1 count as 1
};

double exact_sigmoid(double x) {
  return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
}
double exact_rsqrt(double x) { return 1.0 / std::sqrt(x); }
double exact_reciprocal(double x) { return 1.0 / x; }
double normal_distribution(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double exact_gelu(double x) { return x == -kInf ? 0.0 : x * normal_distribution(x); }
double exact_gelu_slope(double x) {
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  return normal_distribution(x) + (std::isinf(x) ? 0.0 : x * density);
}
double exact_sign(double x) { return (x > 0) - (x < 0); }

const std::vector<Function>& functions() {
  static const std::vector<Function> list = {
      {OpCode::kExpF, std::exp, -110, 92, 2},
      {OpCode::kExpm1F, std::expm1, -30, 92, 2},
      {OpCode::kLogF, std::log, 0, 10, 2},
      {OpCode::kLog1pF, std::log1p, -1, 10, 2},
      {OpCode::kTanhF, std::tanh, -10, 10, 2},
      {OpCode::kSigmoidF, exact_sigmoid, -110, 40, 2.5},
      {OpCode::kErfF, std::erf, -5, 5, 2},
      {OpCode::kSinF, std::sin, -40000, 40000, 2},
      {OpCode::kCosF, std::cos, -40000, 40000, 2},
      {OpCode::kSqrtF, std::sqrt, 0, 1e6, 0.51},
      {OpCode::kRsqrtF, exact_rsqrt, 0, 100, 1.5},
      {OpCode::kReciprocalF, exact_reciprocal, -4, 4, 0.51},
      {OpCode::kLog2F, std::log2, 0, 10, 0.51},
      {OpCode::kLog10F, std::log10, 0, 10, 0.51},
      {OpCode::kTanF, std::tan, -10, 10, 0.51},
      {OpCode::kAsinF, std::asin, -1, 1, 0.51},
      {OpCode::kAcosF, std::acos, -1, 1, 0.51},
      {OpCode::kAtanF, std::atan, -20, 20, 0.51},
      {OpCode::kSinhF, std::sinh, -90, 90, 0.51},
      {OpCode::kCoshF, std::cosh, -90, 90, 0.51},
      {OpCode::kAsinhF, std::asinh, -90, 90, 0.51},
      {OpCode::kAcoshF, std::acosh, 1, 90, 0.51},
      {OpCode::kAtanhF, std::atanh, -1, 1, 0.51},
      {OpCode::kErfcF, std::erfc, -4, 11, 0.51},
      {OpCode::kFloorF, std::floor, -9, 9, 0},
      {OpCode::kCeilF, std::ceil, -9, 9, 0},
      {OpCode::kTruncF, std::trunc, -9, 9, 0},
      {OpCode::kRoundF, std::nearbyint, -9, 9, 0},
      {OpCode::kAbsF, std::fabs, -9, 9, 0},
      {OpCode::kSignF, exact_sign, -9, 9, 0},
      {OpCode::kGeluF, exact_gelu, -10, 10, 2, true},
      {OpCode::kGeluSlopeF, exact_gelu_slope, -10, 10, 2, true},
  };
  return list;
}

PointwiseProgram unary_program(OpCode code) {
  return {.code = {{.code = OpCode::kLoad}, {.code = code, .a = 0}}, .outputs = {1}};
}

std::vector<float> arguments(const Function& f) {
  std::vector<float> x = {0.0f,   -0.0f,   1.0f,     -1.0f,     kInf,    -kInf,   kNan,
                          1e-45f, -1e-45f, 1.2e-38f, -1.1e-38f, 3.4e38f, -3.4e38f};
  std::mt19937 random(7);
  std::uniform_real_distribution<double> dense(f.low, f.high), near(-1.0, 1.0);
  for (int i = 0; i < 60000; ++i) x.push_back(static_cast<float>(dense(random)));
  for (int i = 0; i < 20000; ++i) x.push_back(static_cast<float>(near(random)));
  for (int i = 0; i < 40000; ++i) {  // any bits: every exponent
    uint32_t bits = random();
    float value;
    std::memcpy(&value, &bits, 4);
    x.push_back(value);
  }
  return x;
}

std::vector<float> evaluate(OpCode code, const std::vector<float>& x) {
  auto n = static_cast<int64_t>(x.size());
  Tensor in = Tensor::plain(DType::kF32, {n}), out = Tensor::plain(DType::kF32, {n});
  std::memcpy(in.bytes.data(), x.data(), in.bytes.size());
  run("pointwise", {&in}, {&out}, unary_program(code).to_attributes());
  return {out.as<float>(), out.as<float>() + n};
}

double error_of(const Function& f, float got, double want) {
  if (f.absolute && std::fabs(want) < 1) return std::isnan(got) ? kInf : std::fabs(got - want) * 0x1p23;
  return ulp_error(got, want);
}

TEST(PointwiseFunctions, AreAccurateOverTheWholeRange) {
  for_each_vector_isa([](Isa isa) {
    for (const Function& f : functions()) {
      std::vector<float> x = arguments(f), y = evaluate(f.code, x);
      double worst = 0;
      float where = 0, got = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        double error = error_of(f, y[i], f.exact(static_cast<double>(x[i])));
        if (error > worst) worst = error, where = x[i], got = y[i];
      }
      EXPECT_LE(worst, f.bound) << to_string(f.code) << " on " << to_string(isa) << " at " << where
                                << " gives " << got << " for " << f.exact(where);
    }
  });
}

TEST(PointwiseFunctions, PortableCodeStaysWithinFourUlp) {
  Isa before = active_isa();
  set_active_isa(Isa::kPortable);
  for (const Function& f : functions()) {
    if (f.code == OpCode::kSinF || f.code == OpCode::kCosF)
      continue;  // the reduction needs a fused multiply-add
    std::vector<float> x = arguments(f), y = evaluate(f.code, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, error_of(f, y[i], f.exact(static_cast<double>(x[i]))));
    EXPECT_LE(worst, std::max(f.bound, 4.0)) << to_string(f.code);
  }
  set_active_isa(before);
}

TEST(PointwiseFunctions, GiveTheSameBitsOnAvx2AndAvx512) {
  if (instruction_set() < Isa::kAvx512) GTEST_SKIP() << "this host has no AVX-512";
  for (const Function& f : functions()) {
    std::vector<float> x = arguments(f);
    std::vector<std::vector<float>> results;
    for_each_vector_isa([&](Isa) { results.push_back(evaluate(f.code, x)); });
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(results[0][i]) && std::isnan(results[1][i])) continue;
      ASSERT_EQ(std::memcmp(&results[0][i], &results[1][i], 4), 0) << to_string(f.code) << " at " << x[i];
    }
  }
}

TEST(PointwiseFunctions, KeepTheSignOfZero) {
  for (OpCode code : {OpCode::kSinF, OpCode::kTanhF, OpCode::kErfF, OpCode::kExpm1F, OpCode::kLog1pF,
                      OpCode::kSqrtF, OpCode::kFloorF, OpCode::kTruncF, OpCode::kRoundF}) {
    std::vector<float> y = evaluate(code, {-0.0f, 0.0f});
    EXPECT_TRUE(y[0] == 0.0f && std::signbit(y[0])) << to_string(code);
    EXPECT_TRUE(y[1] == 0.0f && !std::signbit(y[1])) << to_string(code);
  }
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests
