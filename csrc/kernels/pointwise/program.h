// Code of the pointwise VM: what an elementwise (or fused) op computes for one element, as straight-line SSA
// code. The kernel "pointwise" runs it on blocks of elements; operands may be strided or broadcast views.
// Registers are 32 bits wide per element: f32 (f16 is widened on load), i32, u32, or a boolean as 0/1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/pointwise/scalar_functions.h"
#include "support/attributes.h"
#include "support/dtype.h"

namespace ipu::kernels {

// Rows are in scalar_functions.h.
enum class OpCode : uint8_t {
#define IPU_OPCODE(name, number, ...) k##name = number,
#define IPU_OPCODE_OF_REALS(name, number, ...) k##name##F = number,
  IPU_OPCODES(IPU_OPCODE) IPU_CONVERSIONS(IPU_OPCODE) IPU_REAL_FUNCTIONS(IPU_OPCODE_OF_REALS)
#undef IPU_OPCODE
#undef IPU_OPCODE_OF_REALS
};
#define IPU_COUNT(...) +1
inline constexpr size_t kOpCodeCount =
    0 IPU_OPCODES(IPU_COUNT) IPU_CONVERSIONS(IPU_COUNT) IPU_REAL_FUNCTIONS(IPU_COUNT);
#undef IPU_COUNT
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
