#include "ops/verify.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/structure.h"
#include "ir/text/text.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::ops {
namespace {

// Empty when the op agrees with its definition.
std::string disagreement(const ir::Op& op, ir::Form form) {
  if (std::string problem = in_place_problem(op); !problem.empty()) return problem;
  const OpDef* def = definition(op);
  if (def == nullptr) return {};  // structural ops are checked by ir, opaque ones have no rules
  if (form != ir::Form::kAuthored && def->modifies)
    return fmt::format("modifies operand {}; the functional form has no writes", *def->modifies);
  std::vector<ir::Value*> operands;
  for (int i = 0; i < op.operand_count(); ++i) operands.push_back(op.operand(i));
  std::vector<ir::Type> types;
  try {
    types = infer_types(op.kind(), operands, op.attributes);
  } catch (const Error& error) {
    return error.message();
  }
  if (static_cast<int>(types.size()) != op.result_count())
    return fmt::format("has {} results, its type rule gives {}", op.result_count(), types.size());
  for (int i = 0; i < op.result_count(); ++i) {
    const ir::Type& stated = op.result(i)->type();
    if (stated.shape != types[i].shape || stated.dtype != types[i].dtype)
      return fmt::format("result {} is {}, its type rule gives {}", i, ir::to_string(stated),
                         ir::to_string(types[i]));
    if (!def->has(kAnyLayout)) continue;
    for (const ir::Value* operand : operands)
      if (operand != nullptr && operand->type().shape == stated.shape &&
          operand->type().layout != stated.layout)
        return fmt::format("operand %{} has layout {}, result {} has {}", operand->name(),
                           to_string(operand->type().layout), i, to_string(stated.layout));
  }
  return {};
}

}  // namespace

std::vector<ir::Violation> find_violations(const ir::Module& module, ir::Form form) {
  std::vector<ir::Violation> violations = ir::find_violations(module, form);
  if (!violations.empty()) return violations;  // rules of ops may rely on structure
  ir::PrintOptions brief;
  brief.max_constant_elements = 16;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      poll_interruption();
      if (std::string what = disagreement(*op, form); !what.empty())
        violations.push_back({graph->name(), ir::print(*op, brief), std::move(what)});
    }
  return violations;
}

void verify(const ir::Module& module, ir::Form form) {
  const std::vector<ir::Violation> violations = ops::find_violations(module, form);
  if (violations.empty()) return;
  throw Error(ErrorCode::kInvalidIr, ir::describe(violations));
}

}  // namespace ipu::ops
