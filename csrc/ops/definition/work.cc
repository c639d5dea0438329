#include "ops/definition/work.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "ops/expression/function_facts.h"

namespace ipu::ops {
namespace {

void collect(const Expr& expr, std::unordered_set<const ExprNode*>* seen,
             std::vector<std::string_view>* functions) {
  if (!seen->insert(expr.node()).second) return;
  for (const Expr& argument : expr.arguments()) collect(argument, seen, functions);
  if (expr.func() == Func::kInput || expr.func() == Func::kConstant) return;
  functions->push_back(facts_of(expr.func()).name);
}

// Conversions inside an expression happen in registers; those that are the whole op take a pass.
std::vector<std::string_view> without_inner_casts(std::vector<std::string_view> functions) {
  if (functions.size() > 1) std::erase(functions, facts_of(Func::kCast).name);
  return functions;
}

// Of the widest value of as many elements as the result.
target::PassWork pass_of(const ir::Op& op) {
  target::PassWork pass{.elements = op.result()->type().elements(), .element_bytes = 1, .operands = 0};
  for (int i = 0; i < op.operand_count(); ++i) {
    if (op.operand(i) == nullptr) continue;
    const ir::Type& type = op.operand(i)->type();
    if (type.elements() < pass.elements) continue;
    ++pass.operands;
    pass.element_bytes = std::max<int64_t>(pass.element_bytes, size_in_bytes(type.dtype));
  }
  pass.operands = std::max<int64_t>(pass.operands, 1);
  pass.element_bytes = std::max<int64_t>(pass.element_bytes, size_in_bytes(op.result()->type().dtype));
  return pass;
}

// All bytes once, whatever is done with them.
target::Work guess(const ir::Op& op) {
  int64_t in = 0, out = 0;
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) != nullptr) in += op.operand(i)->type().bytes();
  for (int i = 0; i < op.result_count(); ++i) out += op.result(i)->type().bytes();
  return {target::PassWork{.elements = (std::max(in, out) + 3) / 4, .element_bytes = 4, .functions = {""}}};
}

}  // namespace

std::vector<std::string_view> functions_of(const ir::Op& op) {
  const OpDef& def = *definition(op);
  std::vector<Expr> inputs;
  for (int i = 0; i < op.operand_count(); ++i) inputs.push_back(Expr::input(i, op.operand(i)->type().dtype));
  std::unordered_set<const ExprNode*> seen;
  std::vector<std::string_view> functions;
  const std::vector<Expr> trees =
      def.expression(inputs, with_defaults(def, op.attributes), op.result()->type().dtype);
  for (const Expr& tree : trees) collect(tree, &seen, &functions);
  return without_inner_casts(std::move(functions));
}

target::Work pass_over(const ir::Value& result, std::vector<std::string_view> functions, int64_t operands) {
  return {target::PassWork{.elements = result.type().elements(),
                           .element_bytes = size_in_bytes(result.type().dtype),
                           .operands = operands,
                           .functions = std::move(functions)}};
}

OpWork work_of(const ir::Op& op) {
  const OpDef* def = definition(op);
  if (def == nullptr || ir::is_structural(op) || op.result_count() == 0) return {};
  if (def->work) return {def->work(op)};
  if (view_rule(op) != nullptr) return {};
  if (def->expression) {
    target::PassWork pass = pass_of(op);
    pass.functions = functions_of(op);
    return {{{std::move(pass)}}};
  }
  return {{guess(op)}, true};
}

}  // namespace ipu::ops
