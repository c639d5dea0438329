// See gamma.h. Both series are those of Euler and Maclaurin, for arguments from 12 on; smaller ones are moved there.
#include "kernels/pointwise/gamma.h"

#include <math.h>  // lgamma_r: std::lgamma writes a global variable

#include <cmath>
#include <limits>
#include <numbers>

namespace ipu::kernels {
namespace {

constexpr double kSeriesFrom = 12.0;
constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                 5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};  // B2, B4, ...
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_whole(double x) { return x == std::floor(x); }

// Sum of (q + k)^-s over k from 0 on, for whole s from 2 on.
double hurwitz_zeta(double s, double q) {
  double sum = 0.0;
  for (; q < kSeriesFrom; q += 1.0) sum += std::pow(q, -s);
  sum += std::pow(q, 1.0 - s) / (s - 1.0) + std::pow(q, -s) / 2.0;
  double term = s * std::pow(q, -s - 1.0) / 2.0;  // s (s + 1) ... / (2k)! * q^(1 - s - 2k)
  double k = 1.0;
  for (const double bernoulli : kBernoulli) {
    sum += bernoulli * term;
    term *= (s + 2.0 * k - 1.0) * (s + 2.0 * k) / ((2.0 * k + 1.0) * (2.0 * k + 2.0) * q * q);
    k += 1.0;
  }
  return sum;
}

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

double digamma(double x) {
  if (x == 0.0) return std::copysign(kInfinity, -x);
  if (x == kInfinity) return x;
  if (x < 0.0) {
    if (is_whole(x)) return kNan;
    return digamma(1.0 - x) - std::numbers::pi / std::tan(std::numbers::pi * (x - std::floor(x)));
  }
  double sum = 0.0;
  for (; x < kSeriesFrom; x += 1.0) sum -= 1.0 / x;
  sum += std::log(x) - 0.5 / x;
  double power = x * x;
  double k = 1.0;
  for (const double bernoulli : kBernoulli) {
    sum -= bernoulli / (2.0 * k * power);
    power *= x * x;
    k += 1.0;
  }
  return sum;
}

double polygamma(double n, double x) {
  if (!(n >= 0.0) || !is_whole(n) || std::isnan(x)) return kNan;
  if (n == 0.0) return digamma(x);
  if (std::isinf(x)) return x > 0.0 ? 0.0 : kNan;
  const double sign = std::fmod(n, 2.0) == 1.0 ? 1.0 : -1.0;
  if (x <= 0.0 && is_whole(x)) return sign * kInfinity;
  if (n == 1.0 && x < 0.0) {
    const double sine = std::sin(std::numbers::pi * (x - std::floor(x)));
    return std::numbers::pi * std::numbers::pi / (sine * sine) - polygamma(n, 1.0 - x);
  }
  return sign * std::exp(log_gamma(n + 1.0)) * hurwitz_zeta(n + 1.0, x);
}

}  // namespace ipu::kernels
