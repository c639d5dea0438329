// Arithmetic, comparisons and logic of constants. Integers wrap around at 64 bits, as NumPy's do.
#include <cmath>
#include <map>

#include "ops/folding/exact_tensor.h"
#include "ops/folding/fold_node.h"

namespace ipu::ops {
namespace {

using Integer = int64_t (*)(int64_t, int64_t);
using Real = double (*)(double, double);

enum class Result : uint8_t { kOfOperands, kOfFirst, kTruth };

// Unary functions take their operand twice. nullptr: the operator has no meaning for such numbers, or rounds
// them as the device does.
struct Function {
  int operands;  // 0: any number, combined from the first to the last
  Result result;
  Integer integer;
  Real real;
};

int64_t wrapped(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped(-bits(a)) : a / b;
}

int64_t remainder_of_dividend(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

int64_t remainder_of_divisor(int64_t a, int64_t b) {
  const int64_t rest = remainder_of_dividend(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double real_remainder_of_divisor(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = bits(base);
  for (; exponent > 0; exponent /= 2, square *= square)
    if (exponent % 2 == 1) result *= square;
  return wrapped(result);
}

template <typename T>
T sign(T value) {
  if (value != value) return value;
  return static_cast<T>((value > 0) - (value < 0));
}

// Not std::fmax: a NaN wins.
double larger(double a, double b) { return a > b || a != a ? a : b; }
double smaller(double a, double b) { return a < b || a != a ? a : b; }

const std::map<std::string_view, Function>& functions() {
  using enum Result;
  static const std::map<std::string_view, Function> table{
      {"Neg",
       {1, kOfOperands, [](auto a, auto) { return wrapped(-bits(a)); }, [](auto a, auto) { return -a; }}},
      {"Abs",
       {1, kOfOperands, [](auto a, auto) { return a < 0 ? wrapped(-bits(a)) : a; },
        [](auto a, auto) { return std::fabs(a); }}},
      {"Sign", {1, kOfOperands, [](auto a, auto) { return sign(a); }, [](auto a, auto) { return sign(a); }}},
      {"Floor", {1, kOfOperands, nullptr, [](auto a, auto) { return std::floor(a); }}},
      {"Ceil", {1, kOfOperands, nullptr, [](auto a, auto) { return std::ceil(a); }}},
      {"Sqrt", {1, kOfOperands, nullptr, [](auto a, auto) { return std::sqrt(a); }}},
      {"Exp", {1, kOfOperands, nullptr, [](auto a, auto) { return std::exp(a); }}},
      {"Log", {1, kOfOperands, nullptr, [](auto a, auto) { return std::log(a); }}},
      {"Reciprocal", {1, kOfOperands, nullptr, [](auto a, auto) { return 1.0 / a; }}},
      {"Not", {1, kTruth, [](auto a, auto) { return int64_t{a == 0}; }, nullptr}},
      {"Add",
       {2, kOfOperands, [](auto a, auto b) { return wrapped(bits(a) + bits(b)); },
        [](auto a, auto b) { return a + b; }}},
      {"Sub",
       {2, kOfOperands, [](auto a, auto b) { return wrapped(bits(a) - bits(b)); },
        [](auto a, auto b) { return a - b; }}},
      {"Mul",
       {2, kOfOperands, [](auto a, auto b) { return wrapped(bits(a) * bits(b)); },
        [](auto a, auto b) { return a * b; }}},
      {"Div", {2, kOfOperands, quotient, [](auto a, auto b) { return a / b; }}},
      {"Pow", {2, kOfFirst, power, [](auto a, auto b) { return std::pow(a, b); }}},
      {"Sum",
       {0, kOfOperands, [](auto a, auto b) { return wrapped(bits(a) + bits(b)); },
        [](auto a, auto b) { return a + b; }}},
      {"Max", {0, kOfOperands, [](auto a, auto b) { return std::max(a, b); }, larger}},
      {"Min", {0, kOfOperands, [](auto a, auto b) { return std::min(a, b); }, smaller}},
      {"And", {2, kTruth, [](auto a, auto b) { return int64_t{a != 0 && b != 0}; }, nullptr}},
      {"Or", {2, kTruth, [](auto a, auto b) { return int64_t{a != 0 || b != 0}; }, nullptr}},
      {"Xor", {2, kTruth, [](auto a, auto b) { return int64_t{(a != 0) != (b != 0)}; }, nullptr}},
      {"Equal",
       {2, kTruth, [](auto a, auto b) { return int64_t{a == b}; },
        [](auto a, auto b) { return double(a == b); }}},
      {"Less",
       {2, kTruth, [](auto a, auto b) { return int64_t{a < b}; },
        [](auto a, auto b) { return double(a < b); }}},
      {"LessOrEqual",
       {2, kTruth, [](auto a, auto b) { return int64_t{a <= b}; },
        [](auto a, auto b) { return double(a <= b); }}},
      {"Greater",
       {2, kTruth, [](auto a, auto b) { return int64_t{a > b}; },
        [](auto a, auto b) { return double(a > b); }}},
      {"GreaterOrEqual",
       {2, kTruth, [](auto a, auto b) { return int64_t{a >= b}; },
        [](auto a, auto b) { return double(a >= b); }}}};
  return table;
}

Function function_of(NodeImportCall& call, std::string_view type) {
  if (type == "Round" && !call.is_popart())  // PopART's goes away from zero
    return {1, Result::kOfOperands, nullptr, [](auto a, auto) { return std::nearbyint(a); }};
  if (type == "Mod")
    return call.integer("fmod", 0) == 1
               ? Function{2, Result::kOfOperands, remainder_of_dividend,
                          [](auto a, auto b) { return std::fmod(a, b); }}
               : Function{2, Result::kOfOperands, remainder_of_divisor, real_remainder_of_divisor};
  const auto at = functions().find(type);
  return at == functions().end() ? Function{-1, Result::kOfOperands, nullptr, nullptr} : at->second;
}

template <typename T, typename Apply>
std::vector<T> applied(const std::vector<T>& a, const Shape& a_shape, const std::vector<T>& b,
                       const Shape& b_shape, const Shape& shape, Apply apply) {
  const Strides a_strides = broadcast_strides(a_shape, shape), b_strides = broadcast_strides(b_shape, shape);
  std::vector<T> result(static_cast<size_t>(element_count(shape)));
  for (size_t n = 0; n < result.size(); ++n)
    result[n] = apply(a[offset_of(n, shape, a_strides)], b[offset_of(n, shape, b_strides)]);
  return result;
}

// false: the numbers are of no type that the function takes, or too many.
bool combine(const Function& function, const ExactTensor& a, const ExactTensor& b, ExactTensor& result) {
  result.shape = broadcast_shapes(a.shape, b.shape);
  if (element_count(result.shape) > kMostFolded) return false;
  if (a.is_real() ? function.real == nullptr : function.integer == nullptr) return false;
  result.dtype = a.dtype;
  if (a.is_real()) {
    result.reals = applied(a.reals, a.shape, b.reals, b.shape, result.shape, function.real);
  } else {
    result.integers = applied(a.integers, a.shape, b.integers, b.shape, result.shape, function.integer);
  }
  if (function.result == Result::kTruth) result = converted(result, DType::kBool);
  result = ExactTensor::of(*result.to_constant());
  return true;
}

// Bounds are operands from version 11 on, and either may be absent.
bool fold_clip(NodeImportCall& call) {
  if (call.version() < 11) return false;
  ExactTensor result = ExactTensor::of(*call.constant(0));
  const DType dtype = result.dtype;
  for (const auto& [i, type] : {std::pair{1, "Max"}, {2, "Min"}}) {
    if (!call.has_operand(i)) continue;
    const ExactTensor bound = ExactTensor::of(*call.constant(i));
    ExactTensor bounded{dtype, {}, {}, {}};
    if (bound.is_real() != result.is_real() || bound.size() != 1 ||
        !combine(functions().at(type), result, converted(bound, dtype), bounded))
      return false;
    bounded.shape = result.shape;
    result = std::move(bounded);
  }
  call.set_constant(0, result.to_constant());
  return true;
}

}  // namespace

Combination combination_of(std::string_view type) {
  const Function& function = functions().at(type);
  return {function.integer, function.real};
}

bool fold_pointwise(NodeImportCall& call, std::string_view type) {
  if (type == "Clip") return fold_clip(call);
  const Function function = function_of(call, type);
  const int count = call.operand_count();
  if (function.operands < 0 || count < 1 || (function.operands > 0 && count != function.operands))
    return false;
  if (call.version() < 7 && (call.has("broadcast") || call.has("axis")))
    return false;  // shapes meet in other ways
  std::vector<ExactTensor> operands;
  for (int i = 0; i < count; ++i) operands.push_back(ExactTensor::of(*call.constant(i)));
  DType dtype = operands[0].dtype;
  if (function.result == Result::kOfFirst) {
    // An integer to the power of a real is computed as a real.
    if (!operands[0].is_real() && operands[1].is_real()) operands[0] = converted(operands[0], DType::kF64);
    operands[1] = converted(operands[1], operands[0].is_real() ? DType::kF64 : DType::kI64);
  } else {
    for (const ExactTensor& operand : operands) {
      dtype = wider(dtype, operand.dtype);
      if (operand.is_real() != operands[0].is_real()) return false;
    }
    for (ExactTensor& operand : operands) operand = converted(operand, dtype);
    if (function.result == Result::kTruth) dtype = DType::kBool;
  }
  ExactTensor result = operands[0];
  if (function.operands == 1 && !combine(function, result, result, result)) return false;
  for (size_t i = 1; i < operands.size(); ++i) {
    ExactTensor combined{dtype, {}, {}, {}};
    if (!combine(function, result, operands[i], combined)) return false;
    result = std::move(combined);
  }
  call.set_constant(0, converted(result, dtype).to_constant());
  return true;
}

}  // namespace ipu::ops
