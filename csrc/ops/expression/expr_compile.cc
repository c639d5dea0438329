// Expression trees to code of the pointwise VM. Registers know f32, i32, u32 and booleans only: narrower
// types are widened on load, wrapped after arithmetic, and rounded or narrowed at the root.
#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "ops/expression/expr.h"
#include "ops/expression/expr_order.h"
#include "ops/expression/expr_rounding.h"
#include "ops/expression/function_facts.h"
#include "support/error.h"
#include "support/half.h"

namespace ipu::ops {
namespace {

using kernels::Instruction;
using kernels::OpCode;

Register register_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
      return Register::kFloat;
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU16:
    case DType::kU8:
      return Register::kSigned;
    case DType::kU32:
      return Register::kUnsigned;
    case DType::kBool:
      return Register::kBoolean;
    default:
      break;
  }
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unsupported dtype: elementwise arithmetic on {} does not run on the device.",
                          to_string(dtype)));
}

std::optional<OpCode> narrowing(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return OpCode::kRoundF16;
    case DType::kI16:
      return OpCode::kNarrowI16;
    case DType::kU16:
      return OpCode::kNarrowU16;
    case DType::kI8:
      return OpCode::kNarrowI8;
    case DType::kU8:
      return OpCode::kNarrowU8;
    default:
      return std::nullopt;
  }
}

// Code of a function on the registers of its first argument; nullopt: the function leaves the register as it
// is.
std::optional<OpCode> code_of(Func func, Register r) {
  const FunctionFacts& facts = facts_of(func);
  IPU_CHECK(!facts.needs_reals || r == Register::kFloat,
            fmt::format("function {} needs floating-point operands", facts.name));
  return facts.codes[static_cast<size_t>(r)];
}

bool may_leave_the_width(Func func) {
  switch (func) {
    case Func::kAdd:
    case Func::kSub:
    case Func::kMul:
    case Func::kDiv:
    case Func::kFloorDiv:
    case Func::kPow:
    case Func::kNeg:
    case Func::kAbs:
    case Func::kNot:
    case Func::kShl:
      return true;
    default:
      return false;
  }
}

class Compiler {
 public:
  kernels::PointwiseProgram run(std::span<const Expr> roots) {
    OrderedTrees trees = order(roots);
    for (const OrderedNode& node : trees.nodes) {
      registers_.push_back(emit_node(node, trees));
    }
    for (size_t i = 0; i < roots.size(); ++i) {
      int32_t r = registers_[trees.roots[i]];
      // f16 arithmetic inside an op is done in f32; what leaves the op is an f16 value.
      if (roots[i].dtype() == DType::kF16 && !is_rounded_f16(roots[i])) r = emit(OpCode::kRoundF16, r);
      program_.outputs.push_back(r);
    }
    return std::move(program_);
  }

 private:
  int32_t emit(OpCode code, int32_t a = -1, int32_t b = -1, int32_t c = -1, int32_t immediate = 0,
               double value = 0) {
    program_.code.push_back(Instruction{code, a, b, c, immediate, value});
    return static_cast<int32_t>(program_.code.size()) - 1;
  }

  int32_t emit_node(const OrderedNode& node, const OrderedTrees& trees) {
    const Register own = register_of(node.dtype);
    if (node.func == Func::kInput) return emit(OpCode::kLoad, -1, -1, -1, node.input);
    if (node.func == Func::kConstant)
      return emit(own == Register::kFloat ? OpCode::kConstF : OpCode::kConstI, -1, -1, -1, 0, node.value);
    int32_t arguments[3] = {-1, -1, -1};
    for (size_t i = 0; i < node.arguments.size(); ++i) arguments[i] = registers_[node.arguments[i]];
    const DType from = trees.nodes[node.arguments[0]].dtype;
    if (node.func == Func::kCast) return emit_cast(arguments[0], from, node.dtype);
    const Register kind = node.func == Func::kSelect ? own : register_of(from);
    if (node.func == Func::kFloorDiv && kind == Register::kFloat)
      return floor_divide_float(arguments[0], arguments[1]);
    if (node.func == Func::kIsNan && kind != Register::kFloat) return emit(OpCode::kConstI);
    if (node.func == Func::kSign && kind == Register::kUnsigned)
      return emit(OpCode::kNeI, arguments[0], emit(OpCode::kConstI));
    std::optional<OpCode> code = code_of(node.func, kind);
    if (!code) return arguments[0];
    int32_t result = emit(*code, arguments[0], arguments[1], arguments[2]);
    if (is_integer(node.dtype) && may_leave_the_width(node.func))
      if (std::optional<OpCode> narrow = narrowing(node.dtype)) result = emit(*narrow, result);
    return result;
  }

  // Floor of the quotient as torch computes it: from the remainder, so that rounding of a/b never passes an
  // integer.
  int32_t floor_divide_float(int32_t a, int32_t b) {
    const int32_t zero = emit(OpCode::kConstF), one = emit(OpCode::kConstF, -1, -1, -1, 0, 1.0);
    const int32_t remainder = emit(OpCode::kFmodF, a, b);
    const int32_t signs_differ =
        emit(OpCode::kXorB, emit(OpCode::kLtF, b, zero), emit(OpCode::kLtF, remainder, zero));
    const int32_t below = emit(OpCode::kAndB, emit(OpCode::kNeF, remainder, zero), signs_differ);
    const int32_t quotient = emit(OpCode::kDivF, emit(OpCode::kSubF, a, remainder), b);
    const int32_t floored = emit(OpCode::kSubF, quotient, emit(OpCode::kSelect, below, one, zero));
    const int32_t by_zero = emit(OpCode::kEqF, b, zero);
    return emit(OpCode::kSelect, by_zero, emit(OpCode::kDivF, a, b), emit(OpCode::kRoundF, floored));
  }

  int32_t emit_cast(int32_t a, DType from, DType to) {
    const Register source = register_of(from), target = register_of(to);
    if (target == Register::kBoolean)
      return emit(source == Register::kFloat ? OpCode::kFToBool : OpCode::kIToBool, a);
    if (target == Register::kFloat) {
      if (source == Register::kSigned) a = emit(OpCode::kI32ToF, a);
      if (source == Register::kUnsigned) a = emit(OpCode::kU32ToF, a);
      if (source == Register::kBoolean) a = emit(OpCode::kBoolToF, a);
      return to == DType::kF16 ? emit(OpCode::kRoundF16, a) : a;
    }
    if (source == Register::kFloat)
      a = emit(target == Register::kUnsigned ? OpCode::kFToU32 : OpCode::kFToI32, a);
    if (source == Register::kBoolean) return emit(OpCode::kBoolToI, a);
    std::optional<OpCode> narrow = narrowing(to);
    return narrow ? emit(*narrow, a) : a;
  }

  kernels::PointwiseProgram program_;
  std::vector<int32_t> registers_;  // by node
};

}  // namespace

bool is_rounded_f16(const Expr& expr) {
  const std::span<const Expr> arguments = expr.arguments();
  switch (expr.func()) {
    case Func::kInput:
    case Func::kCast:
      return expr.dtype() == DType::kF16;
    case Func::kConstant: {
      const double value = expr.value();
      return std::isnan(value) || static_cast<double>(half_to_float(double_to_half(value))) == value;
    }
    case Func::kNeg:
    case Func::kAbs:
    case Func::kSign:
    case Func::kFloor:
    case Func::kCeil:
    case Func::kTrunc:
      return is_rounded_f16(arguments[0]);
    case Func::kMin:
    case Func::kMax:
      return is_rounded_f16(arguments[0]) && is_rounded_f16(arguments[1]);
    case Func::kSelect:
      return is_rounded_f16(arguments[1]) && is_rounded_f16(arguments[2]);
    default:
      return false;
  }
}

kernels::PointwiseProgram compile(std::span<const Expr> roots, std::span<const DType> input_dtypes) {
  for (DType dtype : input_dtypes) register_of(dtype);
  return Compiler().run(roots);
}

}  // namespace ipu::ops
