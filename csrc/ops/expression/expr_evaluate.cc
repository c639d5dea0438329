// The value of an expression tree for one element: f64 for floating nodes, wrapping integers for integer
// nodes.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/pointwise/gamma.h"
#include "ops/expression/expr.h"
#include "ops/expression/expr_order.h"
#include "ops/reference_tensor.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

double floor_modulo(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

double pick_nan(double a, double b, double otherwise) {
  if (std::isnan(a)) return a;
  return std::isnan(b) ? b : otherwise;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return static_cast<int64_t>(result);
}

// Division by zero gives 0, as on the device. Results are wrapped by the caller.
int64_t integer_value(Func func, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (func) {
    case Func::kAdd:
      return static_cast<int64_t>(ua + ub);
    case Func::kSub:
      return static_cast<int64_t>(ua - ub);
    case Func::kMul:
      return static_cast<int64_t>(ua * ub);
    case Func::kDiv:
      return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(-ua) : a / b;
    case Func::kFloorDiv: {
      if (b == 0) return 0;
      if (b == -1) return static_cast<int64_t>(-ua);
      return a / b - (a % b != 0 && (a < 0) != (b < 0));
    }
    case Func::kRemainder: {
      if (b == 0 || b == -1) return 0;
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case Func::kFmod:
      return b == 0 || b == -1 ? 0 : a % b;
    case Func::kMin:
      return std::min(a, b);
    case Func::kMax:
      return std::max(a, b);
    case Func::kPow:
      return integer_power(a, b);
    case Func::kNeg:
      return static_cast<int64_t>(-ua);
    case Func::kAbs:
      return a < 0 ? static_cast<int64_t>(-ua) : a;
    case Func::kSign:
      return (a > 0) - (a < 0);
    case Func::kFloor:
    case Func::kCeil:
    case Func::kRound:
    case Func::kTrunc:
      return a;
    case Func::kAnd:
      return a & b;
    case Func::kOr:
      return a | b;
    case Func::kXor:
      return a ^ b;
    case Func::kNot:
      return ~a;
    case Func::kShl:
      return b < 0 || b > 63 ? 0 : static_cast<int64_t>(ua << b);
    case Func::kShr:
      return a >> std::clamp<int64_t>(b, 0, 63);
    default:
      break;
  }
  IPU_CHECK(false, fmt::format("function {} has no integer form", static_cast<int>(func)));
  return 0;
}

double real_value(Func func, double a, double b) {
  switch (func) {
    case Func::kAdd:
      return a + b;
    case Func::kSub:
      return a - b;
    case Func::kMul:
      return a * b;
    case Func::kDiv:
      return a / b;
    case Func::kFloorDiv: {  // as torch: from the exact remainder, so that a quotient never rounds up past an
                             // integer
      if (b == 0) return a / b;
      const double remainder = std::fmod(a, b);
      const double below = remainder != 0 && (b < 0) != (remainder < 0) ? 1.0 : 0.0;
      const double quotient = (a - remainder) / b - below;
      return quotient == 0 ? std::copysign(0.0, a / b) : std::nearbyint(quotient);
    }
    case Func::kRemainder:
      return floor_modulo(a, b);
    case Func::kFmod:
      return std::fmod(a, b);
    case Func::kMin:
      return pick_nan(a, b, std::min(a, b));
    case Func::kMax:
      return pick_nan(a, b, std::max(a, b));
    case Func::kPow:
      return std::pow(a, b);
    case Func::kAtan2:
      return std::atan2(a, b);
    case Func::kPolygamma:
      return kernels::polygamma(a, b);
    case Func::kNeg:
      return -a;
    case Func::kAbs:
      return std::fabs(a);
    case Func::kSign:
      return std::isnan(a) ? 0.0 : (a > 0) - (a < 0);
    case Func::kSqrt:
      return std::sqrt(a);
    case Func::kRsqrt:
      return 1.0 / std::sqrt(a);
    case Func::kReciprocal:
      return 1.0 / a;
    case Func::kExp:
      return std::exp(a);
    case Func::kExpm1:
      return std::expm1(a);
    case Func::kLog:
      return std::log(a);
    case Func::kLog1p:
      return std::log1p(a);
    case Func::kLog2:
      return std::log2(a);
    case Func::kLog10:
      return std::log10(a);
    case Func::kSin:
      return std::sin(a);
    case Func::kCos:
      return std::cos(a);
    case Func::kTan:
      return std::tan(a);
    case Func::kAsin:
      return std::asin(a);
    case Func::kAcos:
      return std::acos(a);
    case Func::kAtan:
      return std::atan(a);
    case Func::kSinh:
      return std::sinh(a);
    case Func::kCosh:
      return std::cosh(a);
    case Func::kTanh:
      return std::tanh(a);
    case Func::kAsinh:
      return std::asinh(a);
    case Func::kAcosh:
      return std::acosh(a);
    case Func::kAtanh:
      return std::atanh(a);
    case Func::kErf:
      return std::erf(a);
    case Func::kErfc:
      return std::erfc(a);
    case Func::kLgamma:
      return kernels::log_gamma(a);
    case Func::kDigamma:
      return kernels::digamma(a);
    case Func::kSigmoid:
      return a >= 0 ? 1.0 / (1.0 + std::exp(-a)) : std::exp(a) / (1.0 + std::exp(a));
    case Func::kGelu:
      return a == -std::numeric_limits<double>::infinity() ? -0.0 : a * normal_distribution(a);
    case Func::kGeluSlope:
      return normal_distribution(a) + (std::isinf(a) ? 0.0 : a * normal_density(a));
    case Func::kFloor:
      return std::floor(a);
    case Func::kCeil:
      return std::ceil(a);
    case Func::kRound:
      return std::nearbyint(a);  // ties to even, as torch
    case Func::kTrunc:
      return std::trunc(a);
    default:
      break;
  }
  IPU_CHECK(false, fmt::format("function {} has no floating-point form", static_cast<int>(func)));
  return 0;
}

// Wraps before the conversion to f64, which would drop low bits of a product of two i32.
double wrap(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU32:
      return static_cast<uint32_t>(value);
    case DType::kI16:
      return static_cast<int16_t>(value);
    case DType::kU16:
      return static_cast<uint16_t>(value);
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    default:
      return static_cast<double>(value);
  }
}

double cast_value(double a, DType from, DType to) {
  if (to == DType::kBool) return a != 0 ? 1.0 : 0.0;
  if (is_floating_point(to)) return a;  // rounding is the caller's
  if (!is_floating_point(from)) return round_to(to, a);
  if (std::isnan(a)) return 0.0;  // saturate as the device does, then wrap to narrower widths
  if (to == DType::kU32) return std::trunc(std::clamp(a, 0.0, 4294967295.0));
  if (to == DType::kI64) return std::trunc(a);
  return round_to(to, std::trunc(std::clamp(a, -2147483648.0, 2147483647.0)));
}

}  // namespace

Evaluator::Evaluator(std::span<const Expr> roots) {
  OrderedTrees trees = order(roots);
  for (const OrderedNode& node : trees.nodes) {
    Step step{
        node.func, node.dtype, node.dtype, {-1, -1, -1}, node.func == Func::kInput ? node.input : node.value};
    for (size_t i = 0; i < node.arguments.size(); ++i) step.arguments[i] = node.arguments[i];
    if (!node.arguments.empty()) step.argument_dtype = trees.nodes[node.arguments[0]].dtype;
    steps_.push_back(step);
  }
  roots_ = trees.roots;
  values_.resize(steps_.size());
}

void Evaluator::operator()(std::span<const double> inputs, std::span<double> results) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    const double a = s.arguments[0] < 0 ? 0.0 : values_[s.arguments[0]];
    const double b = s.arguments[1] < 0 ? 0.0 : values_[s.arguments[1]];
    double& out = values_[i];
    switch (s.func) {
      case Func::kInput:
        out = inputs[static_cast<size_t>(s.value)];
        break;
      case Func::kConstant:
        out = s.value;
        break;
      case Func::kEq:
        out = a == b;
        break;
      case Func::kNe:
        out = a != b;
        break;
      case Func::kLt:
        out = a < b;
        break;
      case Func::kLe:
        out = a <= b;
        break;
      case Func::kGt:
        out = a > b;
        break;
      case Func::kGe:
        out = a >= b;
        break;
      case Func::kIsNan:
        out = std::isnan(a);
        break;
      case Func::kSelect:
        out = a != 0 ? b : values_[s.arguments[2]];
        break;
      case Func::kCast:
        out = cast_value(a, s.argument_dtype, s.dtype);
        break;
      default:
        if (s.dtype == DType::kBool) {
          if (s.func == Func::kNot)
            out = a == 0;
          else
            out = integer_value(s.func, a != 0, b != 0) != 0;
        } else if (is_integer(s.dtype)) {
          out = wrap(s.dtype, integer_value(s.func, static_cast<int64_t>(a), static_cast<int64_t>(b)));
        } else {
          out = real_value(s.func, a, b);
        }
    }
  }
  for (size_t i = 0; i < roots_.size(); ++i) results[i] = values_[roots_[i]];
}

double evaluate(const Expr& expr, std::span<const double> inputs) {
  double result = 0;
  Evaluator({&expr, 1})(inputs, {&result, 1});
  return result;
}

}  // namespace ipu::ops
