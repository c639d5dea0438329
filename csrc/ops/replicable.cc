#include "ops/replicable.h"

#include "ir/structure.h"
#include "ops/definition/effects.h"

namespace ipu::ops {

bool is_replicable(const ir::Op& op) {
  if (op.is(ir::kind::kConstant) || op.is(ir::kind::kReplicaIndex)) return true;
  if (!is_function(op) || has_trait(op, kExpensive)) return false;
  if (op.result_count() == 1 && (op.is("expand") || op.is("iota"))) return true;
  for (int i = 0; i < op.result_count(); ++i)
    if (!op.result(i)->type().shape.empty()) return false;
  return op.result_count() > 0;
}

std::unordered_set<const ir::Value*> find_replicable(const ir::Graph& graph, const ir::Value* index) {
  std::unordered_set<const ir::Value*> replicable;
  if (index != nullptr) replicable.insert(index);
  for (const auto& op : graph.ops()) {
    if (!is_replicable(*op)) continue;
    bool is_known = true;
    for (int i = 0; i < op->operand_count() && is_known; ++i)
      is_known = op->operand(i) == nullptr || replicable.contains(op->operand(i));
    if (!is_known) continue;
    for (int i = 0; i < op->result_count(); ++i) replicable.insert(op->result(i));
  }
  return replicable;
}

bool stands_with_users(const ir::Op& op) {
  if (ir::is_region(op) || ir::touches_variable(op) || op.result_count() == 0) return false;
  for (int i = 0; i < op.operand_count(); ++i) {
    const ir::Value* operand = op.operand(i);
    if (operand == nullptr) continue;
    const bool is_scalar_constant = operand->producer() != nullptr &&
                                    operand->producer()->is(ir::kind::kConstant) &&
                                    operand->type().shape.empty();
    if (!is_scalar_constant) return false;
  }
  return true;
}

}  // namespace ipu::ops
