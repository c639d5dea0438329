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
#include "ops/expression/function_facts.h"
#include "ops/reference_tensor.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

double floor_modulo(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// As torch: from the exact remainder, so that a quotient never rounds up past an integer.
double floor_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double remainder = std::fmod(a, b);
  const double below = remainder != 0 && (b < 0) != (remainder < 0) ? 1.0 : 0.0;
  const double quotient = (a - remainder) / b - below;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::nearbyint(quotient);
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}
double gelu(double x) {
  return x == -std::numeric_limits<double>::infinity() ? -0.0 : x * normal_distribution(x);
}
double gelu_slope(double x) { return normal_distribution(x) + (std::isinf(x) ? 0.0 : x * normal_density(x)); }

double pick_nan(double a, double b, double otherwise) {
  if (std::isnan(a)) return a;
  return std::isnan(b) ? b : otherwise;
}

// Division by zero gives 0, as on the device. Results are wrapped by the caller.
int64_t integer_quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}
int64_t floor_quotient(int64_t a, int64_t b) {
  return integer_quotient(a, b) - (b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0));
}
int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return static_cast<int64_t>(result);
}

int64_t integer_value(Func func, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (func) {
#define IPU_INTEGER_VALUE(name, op, on_f, on_i, on_u, on_b, real, integer) \
  case Func::k##name:                                                      \
    return integer;
    IPU_TYPED_FUNCTIONS(IPU_INTEGER_VALUE)
#undef IPU_INTEGER_VALUE
    default:
      break;
  }
  IPU_CHECK(false, fmt::format("function {} has no integer form", facts_of(func).name));
  return 0;
}

double refuse_real(Func func) {
  IPU_CHECK(false, fmt::format("function {} has no floating-point form", facts_of(func).name));
  return 0;
}

double real_value(Func func, double a, double b) {
  switch (func) {
#define IPU_TYPED_VALUE(name, op, on_f, on_i, on_u, on_b, real, integer) \
  case Func::k##name:                                                    \
    return real;
#define IPU_REAL_VALUE(name, number, op, arity, value, ...) \
  case Func::k##name:                                       \
    return value;
    IPU_TYPED_FUNCTIONS(IPU_TYPED_VALUE)
    IPU_REAL_FUNCTIONS(IPU_REAL_VALUE)
#undef IPU_TYPED_VALUE
#undef IPU_REAL_VALUE
    default:
      return refuse_real(func);
  }
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
#define IPU_PREDICATE_VALUE(name, op, on_f, on_i, on_u, on_b, value) \
  case Func::k##name:                                                \
    out = value;                                                     \
    break;
        IPU_PREDICATES(IPU_PREDICATE_VALUE)
#undef IPU_PREDICATE_VALUE
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
