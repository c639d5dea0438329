#include "ops/rounding.h"

#include <algorithm>
#include <array>

#include "ops/definition/build.h"
#include "ops/definition/op_def.h"
#include "ops/linear/half_partials.h"
#include "support/half.h"

namespace ipu::ops {
namespace {

// Kinds without an expression whose results are elements of their operands.
constexpr std::array<std::string_view, 15> kMovers = {
    "all_gather",   "all_to_all",   "broadcast",     "embedding", "gather",
    "host_call",    "index_copy",   "index_select",  "max_pool",  "one_hot",
    "overlap_mark", "print_tensor", "replica_slice", "scatter",   "sort"};

bool is_half(double value) { return half_to_float(double_to_half(value)) == value; }

// Halves in, halves out, by what the tree does.
bool keeps_halves(const Expr& expr) {
  const auto arguments = expr.arguments();
  switch (expr.func()) {
    case Func::kInput:
      return expr.dtype() == DType::kF16 || expr.dtype() == DType::kBool;
    case Func::kConstant:
      return is_half(expr.value());
    case Func::kMin:
    case Func::kMax:
    case Func::kNeg:
    case Func::kAbs:
    case Func::kFloor:
    case Func::kCeil:
    case Func::kRound:
    case Func::kTrunc:
      return std::all_of(arguments.begin(), arguments.end(), keeps_halves);
    case Func::kCast:  // also of f16 to f32 and back
      return is_floating_point(expr.dtype()) && keeps_halves(arguments[0]);
    case Func::kSign:
      return true;
    case Func::kSelect:
      return keeps_halves(arguments[1]) && keeps_halves(arguments[2]);
    default:
      return false;
  }
}

bool is_exact(const ir::Op& op, const OpDef& def) {
  if (def.view || def.family == "shape" || def.family == "exchange") return true;
  if (def.name == "scatter" && op.attributes.text("mode", "assign") == "multiply") return false;
  if (std::find(kMovers.begin(), kMovers.end(), def.name) != kMovers.end()) return true;
  if (!def.expression) return false;
  std::vector<Expr> inputs;
  for (int i = 0; i < op.operand_count(); ++i) inputs.push_back(Expr::input(i, op.operand(i)->type().dtype));
  const std::vector<Expr> roots =
      def.expression(inputs, with_defaults(def, op.attributes), op.result()->type().dtype);
  return std::all_of(roots.begin(), roots.end(), keeps_halves);
}

}  // namespace

bool rounds_halves(const ir::Op& op) {
  const OpDef* def = definition(op);
  if (def == nullptr) return false;
  bool makes_halves = false, has_floats = false;
  for (int i = 0; i < op.result_count(); ++i) makes_halves |= op.result(i)->type().dtype == DType::kF16;
  // From integers, and out of nothing but a seed, there is one rounding that belongs to the op.
  for (int i = 0; i < op.operand_count(); ++i)
    has_floats |= op.operand(i) != nullptr && is_floating_point(op.operand(i)->type().dtype);
  if (!makes_halves || !has_floats) return false;
  if (def->name == "stochastic_round" || has_half_partials(op)) return false;  // on their own
  return !is_exact(op, *def);
}

}  // namespace ipu::ops
