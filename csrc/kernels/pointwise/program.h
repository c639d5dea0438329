// Code of the pointwise VM: what an elementwise (or fused) op computes for one element, as straight-line SSA
// code. The kernel "pointwise" runs it on blocks of elements; operands may be strided or broadcast views.
// Registers are 32 bits wide per element: f32 (f16 is widened on load), i32, u32, or a boolean as 0/1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/attributes.h"
#include "support/dtype.h"

namespace ipu::kernels {

// Suffix: f on f32 registers, i on i32, u on u32; compares give a boolean. Nothing suffixed works on raw
// bits.
enum class OpCode : uint8_t {
  kLoad,  // operand `immediate`; widened to a register by its dtype
  kConstF,
  kConstI,  // `value`
  kIota,    // i32: index of the element along dimension `immediate` of the result
  // f32
  kAddF,
  kSubF,
  kMulF,
  kDivF,
  kMinF,
  kMaxF,
  kPowF,
  kFmodF,
  kRemainderF,
  kAtan2F,
  kNegF,
  kAbsF,
  kSignF,
  kSqrtF,
  kRsqrtF,
  kReciprocalF,
  kExpF,
  kExpm1F,
  kLogF,
  kLog1pF,
  kLog2F,
  kLog10F,
  kSinF,
  kCosF,
  kTanF,
  kAsinF,
  kAcosF,
  kAtanF,
  kSinhF,
  kCoshF,
  kTanhF,
  kAsinhF,
  kAcoshF,
  kAtanhF,
  kErfF,
  kErfcF,
  kSigmoidF,
  kFloorF,
  kCeilF,
  kRoundF,
  kTruncF,
  kIsNanF,
  kFmaF,  // a*b + c, one rounding
  kEqF,
  kNeF,
  kLtF,
  kLeF,
  kGtF,
  kGeF,
  // i32 and u32 (wrap on overflow; division by zero gives 0; kDivI truncates, kFloorDivI floors; a shift by
  // less than 0 or more than 31 moves every bit out; kPowI by a negative exponent is 0 unless the base is 1
  // or -1)
  kAddI,
  kSubI,
  kMulI,
  kDivI,
  kFloorDivI,
  kRemainderI,
  kFmodI,
  kMinI,
  kMaxI,
  kNegI,
  kAbsI,
  kSignI,
  kPowI,
  kEqI,
  kNeI,
  kLtI,
  kLeI,
  kGtI,
  kGeI,
  kLtU,
  kLeU,
  kGtU,
  kGeU,
  kDivU,
  kRemainderU,
  kMinU,
  kMaxU,
  kAndI,
  kOrI,
  kXorI,
  kNotI,
  kShlI,
  kShrI,
  kShrU,
  // booleans
  kAndB,
  kOrB,
  kXorB,
  kNotB,
  kSelect,  // a ? b : c
  // conversions
  kI32ToF,
  kU32ToF,
  kFToI32,
  kFToU32,  // truncate, saturate; NaN gives 0
  kBoolToF,
  kBoolToI,
  kFToBool,
  kIToBool,
  kRoundF16,  // to the nearest f16 and back
  kNarrowI16,
  kNarrowU16,
  kNarrowI8,
  kNarrowU8,  // wrap to the width and extend back
  // Numbers are written into files: later opcodes go to the end.
  kGeluF,       // x times the normal distribution function of x
  kGeluSlopeF,  // its slope
  kLgammaF,
  kDigammaF,
  kPolygammaF,  // of order a
};
inline constexpr size_t kOpCodeCount = static_cast<size_t>(OpCode::kPolygammaF) + 1;
std::string_view to_string(OpCode code);
int arity(OpCode code);  // registers read

struct Instruction {
  OpCode code;
  int32_t a = -1, b = -1, c = -1;  // registers = numbers of earlier instructions
  int32_t immediate = 0;
  double value = 0.0;
};

// A program has at most so many instructions, and at most so many outputs: views, registers and pointers in
// scratch are counted in 16 bits. Longer sums are cut (op add_n).
inline constexpr size_t kMostInstructions = 4096;

struct PointwiseProgram {
  std::vector<Instruction> code;
  std::vector<int32_t> outputs;  // register of each result; the store narrows by the result's dtype

  // As attributes of the kernel "pointwise": code = integers (5 per instruction), values = reals, outputs =
  // integers.
  Attributes to_attributes() const;
  static PointwiseProgram from_attributes(
      const Attributes& attributes);  // Error(kInvalidProgram) when malformed
};

void check(const PointwiseProgram& program);             // Error(kInvalidProgram) when malformed
std::string to_string(const PointwiseProgram& program);  // one instruction a line, for dumps and tests

}  // namespace ipu::kernels
