// What is known of each function of an expression, from the rows of kernels/pointwise/scalar_functions.h.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "ops/expression/expr.h"

namespace ipu::ops {

enum class Register : uint8_t { kFloat, kSigned, kUnsigned, kBoolean };

struct FunctionFacts {
  std::string_view name;
  std::string_view op;  // means it, with operands in the same order; "": none does
  bool is_predicate;    // its value is a boolean
  bool needs_reals;     // no other registers
  // VM code by the registers of the first argument; nullopt: the register stays as it is.
  std::array<std::optional<kernels::OpCode>, 4> codes;
};
const FunctionFacts& facts_of(Func func);

// The function of an opcode of the VM that has one or two operands.
struct Meaning {
  Func func;
  std::optional<DType> dtype;  // of the result; nullopt: that of the first argument
};
std::optional<Meaning> meaning_of(kernels::OpCode code);

}  // namespace ipu::ops
