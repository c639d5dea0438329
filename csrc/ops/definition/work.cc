#include "ops/definition/work.h"

#include <algorithm>

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/definition/decomposition.h"
#include "ops/definition/effects.h"
#include "ops/expression/expr_order.h"
#include "ops/expression/function_facts.h"

namespace ipu::ops {
namespace {

// Conversions inside an expression happen in registers; those that are the whole op take a pass.
std::vector<std::string_view> without_inner_casts(std::vector<std::string_view> functions) {
  const std::string_view cast = facts_of(Func::kCast).name;
  if (std::ranges::any_of(functions, [&](std::string_view f) { return f != cast; }))
    std::erase(functions, cast);
  return functions;
}

// That is of floats, if any is.
struct Width {
  int64_t bytes = 1;
  bool is_real = false;

  void add(const ir::Type& type) {
    if (is_floating_point(type.dtype) && !is_real) *this = {1, true};
    if (is_floating_point(type.dtype) == is_real) bytes = std::max<int64_t>(bytes, size_in_bytes(type.dtype));
  }
  target::ElementType type() const {
    return is_real ? target::ElementType::kReal : target::ElementType::kInteger;
  }
};

// All bytes once, whatever is done with them.
target::Work guess(const ir::Op& op) {
  int64_t in = 0, out = 0;
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) != nullptr) in += op.operand(i)->type().bytes();
  for (int i = 0; i < op.result_count(); ++i) out += op.result(i)->type().bytes();
  return {target::PassWork{.elements = (std::max(in, out) + 3) / 4, .element_bytes = 4, .functions = {""}}};
}

}  // namespace

std::vector<std::string_view> functions_of(std::span<const Expr> trees) {
  std::vector<std::string_view> functions;
  for (const OrderedNode& node : order(trees).nodes)
    if (node.func != Func::kInput && node.func != Func::kConstant)
      functions.push_back(facts_of(node.func).name);
  return without_inner_casts(std::move(functions));
}

std::vector<std::string_view> functions_of(const ir::Op& op) {
  const OpDef& def = *definition(op);
  std::vector<Expr> inputs;
  for (int i = 0; i < op.operand_count(); ++i) inputs.push_back(Expr::input(i, op.operand(i)->type().dtype));
  return functions_of(def.expression(inputs, with_defaults(def, op.attributes), op.result()->type().dtype));
}

target::Work pass_over(const ir::Type& type, std::vector<std::string_view> functions, int64_t operands) {
  Width width;
  width.add(type);
  return {target::PassWork{.elements = type.elements(),
                           .element_bytes = width.bytes,
                           .operands = operands,
                           .functions = std::move(functions),
                           .type = width.type()}};
}

target::Work pass_of(const ir::Op& op, std::vector<std::string_view> functions) {
  const ir::Type& result = op.result()->type();
  Width width;
  width.add(result);
  int64_t whole = 0;
  bool has_broadcast = false;
  for (int i = 0; i < op.operand_count(); ++i) {
    if (op.operand(i) == nullptr) continue;
    const ir::Type& type = op.operand(i)->type();
    const bool is_whole = type.elements() >= result.elements();
    if (is_whole) width.add(type);
    whole += is_whole ? 1 : 0;
    has_broadcast = has_broadcast || !is_whole;
  }
  return {target::PassWork{.elements = result.elements(),
                           .element_bytes = width.bytes,
                           .operands = std::max<int64_t>(whole + (has_broadcast ? 1 : 0), 1),
                           .functions = std::move(functions),
                           .type = width.type()}};
}

target::Work reduction_of(const ir::Type& x, int64_t results, int64_t sums) {
  return {target::ReductionWork{.elements = x.elements(),
                                .results = results,
                                .element_bytes = static_cast<int64_t>(size_in_bytes(x.dtype)),
                                .sums = sums}};
}

target::Work rearrangement_of(const ir::Type& type, int64_t contiguous) {
  return {target::RearrangementWork{
      .bytes = type.bytes(),
      .contiguous_bytes = contiguous * static_cast<int64_t>(size_in_bytes(type.dtype))}};
}

target::Work gather_from(const ir::Type& table, int64_t rows, int64_t row_elements, bool is_update,
                         int64_t groups) {
  return {target::GatherWork{.rows = rows,
                             .row_bytes = row_elements * static_cast<int64_t>(size_in_bytes(table.dtype)),
                             .table_bytes = table.bytes(),
                             .groups = groups,
                             .is_update = is_update}};
}

WorkRule one_pass(std::vector<std::string_view> functions) {
  return [functions = std::move(functions)](const ir::Op& op) { return std::vector{pass_of(op, functions)}; };
}

WorkRule no_work() {
  return [](const ir::Op&) { return std::vector<target::Work>{}; };
}

OpWork work_of(const ir::Op& op) {
  const OpDef* def = definition(op);
  if (def == nullptr || ir::is_structural(op) || op.result_count() == 0) return {};
  if (def->work) return {def->work(op)};
  if (view_rule(op) != nullptr) return {};
  if (def->expression) {
    std::vector<std::string_view> functions = functions_of(op);
    if (functions.empty()) return {};  // an operand as it is
    return {{pass_of(op, std::move(functions))}};
  }
  if (def->decompose || def->expand) return work_of_parts(op);
  return {{guess(op)}, true};
}

}  // namespace ipu::ops
