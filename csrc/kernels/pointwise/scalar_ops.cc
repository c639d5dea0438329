// Opcodes that are rare: one std:: call or a few integer operations per element. Transcendental functions go
// through f64 and round once, so they do not depend on the instruction set.
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/gamma.h"

namespace ipu::kernels {
namespace {

template <class A, class R, R (*kFunction)(A)>
void each(const BlockCall& call) {
  const auto* a = static_cast<const A*>(call.a);
  auto* result = static_cast<R*>(call.result);
  for (size_t i = 0; i < call.count; ++i) result[i] = kFunction(a[i * call.stride_a]);
}

template <class A, class R, R (*kFunction)(A, A)>
void each(const BlockCall& call) {
  const auto* a = static_cast<const A*>(call.a);
  const auto* b = static_cast<const A*>(call.b);
  auto* result = static_cast<R*>(call.result);
  for (size_t i = 0; i < call.count; ++i) result[i] = kFunction(a[i * call.stride_a], b[i * call.stride_b]);
}

// Both round the value of an f64 once.
template <auto kFunction>
float through_f64_of_1(float x) {
  return static_cast<float>(kFunction(static_cast<double>(x)));
}
template <auto kFunction>
float through_f64_of_2(float x, float y) {
  return static_cast<float>(kFunction(static_cast<double>(x), static_cast<double>(y)));
}
#define IPU_PARAMETERS_1 double a
#define IPU_PARAMETERS_2 double a, double b
#define IPU_F64_FUNCTION(name, number, text, arity, value) \
  double value_of_##name(IPU_PARAMETERS_##arity) { return value; }
IPU_F64_FUNCTIONS(IPU_F64_FUNCTION)
#undef IPU_F64_FUNCTION

// Exponents that torch computes by multiplication and square roots give the same bits here. Roots of zeros and of -inf are
// those of pow: +inf to the power 0.5.
float power(float x, float y) {
  if (y == 2.0f) return x * x;
  if (y == 3.0f) return x * x * x;
  if (y == 0.5f && x > 0.0f) return std::sqrt(x);
  if (y == -0.5f && x > 0.0f) return 1.0f / std::sqrt(x);
  if (y == -1.0f) return 1.0f / x;
  if (y == -2.0f) return 1.0f / (x * x);
  return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
}
float remainder(float a, float b) {
  float rest = std::fmod(a, b);
  return rest != 0.0f && ((b < 0.0f) != (rest < 0.0f)) ? rest + b : rest;
}
float modulo(float a, float b) { return std::fmod(a, b); }

uint32_t bits(int32_t x) { return static_cast<uint32_t>(x); }
int32_t wrapped(uint32_t x) { return static_cast<int32_t>(x); }

constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
int32_t divide(int32_t a, int32_t b) { return b == 0 ? 0 : (a == kLowest && b == -1) ? a : a / b; }
int32_t rest(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int32_t floor_divide(int32_t a, int32_t b) {
  int32_t r = rest(a, b);
  return divide(a, b) - (r != 0 && (r < 0) != (b < 0) ? 1 : 0);
}
int32_t floor_rest(int32_t a, int32_t b) {
  int32_t r = rest(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int32_t negate(int32_t a) { return wrapped(0u - bits(a)); }
int32_t absolute(int32_t a) { return a < 0 ? negate(a) : a; }
int32_t sign(int32_t a) { return (a > 0) - (a < 0); }
int32_t integer_power(int32_t base, int32_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint32_t result = 1, square = bits(base);
  for (uint32_t e = bits(exponent); e != 0; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return wrapped(result);
}
uint32_t less_equal_i(int32_t a, int32_t b) { return a <= b; }
uint32_t greater_equal_i(int32_t a, int32_t b) { return a >= b; }
uint32_t less_u(uint32_t a, uint32_t b) { return a < b; }
uint32_t less_equal_u(uint32_t a, uint32_t b) { return a <= b; }
uint32_t greater_u(uint32_t a, uint32_t b) { return a > b; }
uint32_t greater_equal_u(uint32_t a, uint32_t b) { return a >= b; }
uint32_t divide_u(uint32_t a, uint32_t b) { return b == 0 ? 0 : a / b; }
uint32_t rest_u(uint32_t a, uint32_t b) { return b == 0 ? 0 : a % b; }
uint32_t shift_left(uint32_t a, uint32_t b) { return b > 31 ? 0 : a << b; }
uint32_t shift_right_u(uint32_t a, uint32_t b) { return b > 31 ? 0 : a >> b; }
int32_t shift_right_i(int32_t a, int32_t b) { return a >> (bits(b) > 31 ? 31 : b); }
float unsigned_to_float(uint32_t a) { return static_cast<float>(a); }
uint32_t float_to_unsigned(float a) {
  if (!(a > 0.0f)) return 0;  // NaN too
  return a >= 4294967296.0f ? std::numeric_limits<uint32_t>::max() : static_cast<uint32_t>(a);
}
template <class Narrow>
int32_t narrowed(int32_t a) {
  return static_cast<int32_t>(static_cast<Narrow>(a));
}

}  // namespace

BlockFunction scalar_block_function(OpCode code) {
  switch (code) {
    case OpCode::kPowF:
      return each<float, float, power>;
    case OpCode::kFmodF:
      return each<float, float, modulo>;
    case OpCode::kRemainderF:
      return each<float, float, remainder>;
#define IPU_F64_FUNCTION(name, number, text, arity, ...) \
  case OpCode::k##name##F:                               \
    return each<float, float, through_f64_of_##arity<value_of_##name>>;
      IPU_F64_FUNCTIONS(IPU_F64_FUNCTION)
#undef IPU_F64_FUNCTION
    case OpCode::kDivI:
      return each<int32_t, int32_t, divide>;
    case OpCode::kFloorDivI:
      return each<int32_t, int32_t, floor_divide>;
    case OpCode::kRemainderI:
      return each<int32_t, int32_t, floor_rest>;
    case OpCode::kFmodI:
      return each<int32_t, int32_t, rest>;
    case OpCode::kNegI:
      return each<int32_t, int32_t, negate>;
    case OpCode::kAbsI:
      return each<int32_t, int32_t, absolute>;
    case OpCode::kSignI:
      return each<int32_t, int32_t, sign>;
    case OpCode::kPowI:
      return each<int32_t, int32_t, integer_power>;
    case OpCode::kLeI:
      return each<int32_t, uint32_t, less_equal_i>;
    case OpCode::kGeI:
      return each<int32_t, uint32_t, greater_equal_i>;
    case OpCode::kLtU:
      return each<uint32_t, uint32_t, less_u>;
    case OpCode::kLeU:
      return each<uint32_t, uint32_t, less_equal_u>;
    case OpCode::kGtU:
      return each<uint32_t, uint32_t, greater_u>;
    case OpCode::kGeU:
      return each<uint32_t, uint32_t, greater_equal_u>;
    case OpCode::kDivU:
      return each<uint32_t, uint32_t, divide_u>;
    case OpCode::kRemainderU:
      return each<uint32_t, uint32_t, rest_u>;
    case OpCode::kShlI:
      return each<uint32_t, uint32_t, shift_left>;
    case OpCode::kShrU:
      return each<uint32_t, uint32_t, shift_right_u>;
    case OpCode::kShrI:
      return each<int32_t, int32_t, shift_right_i>;
    case OpCode::kU32ToF:
      return each<uint32_t, float, unsigned_to_float>;
    case OpCode::kFToU32:
      return each<float, uint32_t, float_to_unsigned>;
    case OpCode::kNarrowI16:
      return each<int32_t, int32_t, narrowed<int16_t>>;
    case OpCode::kNarrowU16:
      return each<int32_t, int32_t, narrowed<uint16_t>>;
    case OpCode::kNarrowI8:
      return each<int32_t, int32_t, narrowed<int8_t>>;
    case OpCode::kNarrowU8:
      return each<int32_t, int32_t, narrowed<uint8_t>>;
    default:
      return nullptr;
  }
}

}  // namespace ipu::kernels
