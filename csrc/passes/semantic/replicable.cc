// One forward sweep per graph; the question of what is cheap is answered once, here.
#include "passes/semantic/replicable.h"

#include "ir/structure.h"
#include "ops/definition/op_def.h"

namespace ipu::passes {
namespace {

bool is_cheap(const ir::Op& op) {
  if (op.is(ir::kind::kConstant) || op.is(ir::kind::kReplicaIndex)) return true;
  if (ir::is_structural(op)) return false;
  const ops::OpDef* def = ops::definition(op);
  if (def == nullptr || def->has(ops::kSideEffects) || def->has(ops::kRandom) || def->has(ops::kExpensive))
    return false;
  // Of larger results only those that are spread from a scalar or counted out.
  if (op.result_count() == 1 && (op.is("expand") || op.is("iota"))) return true;
  for (int i = 0; i < op.result_count(); ++i)
    if (!op.result(i)->type().shape.empty()) return false;
  return op.result_count() > 0;
}

}  // namespace

std::unordered_set<const ir::Value*> find_replicable(const ir::Graph& graph, const ir::Value* index) {
  std::unordered_set<const ir::Value*> replicable;
  if (index != nullptr) replicable.insert(index);
  for (const auto& op : graph.ops()) {
    if (!is_cheap(*op)) continue;
    bool is_known = true;
    for (int i = 0; i < op->operand_count() && is_known; ++i)
      is_known = op->operand(i) == nullptr || replicable.contains(op->operand(i));
    if (!is_known) continue;
    for (int i = 0; i < op->result_count(); ++i) replicable.insert(op->result(i));
  }
  return replicable;
}

ir::Op* clone_onto(const ir::Op& op, const std::vector<ir::Value*>& operands, ir::Graph& graph,
                   ir::Op* before) {
  ir::Op* copy = graph.create(op.kind(), operands, op.attributes, {}, before);
  copy->settings = op.settings;
  copy->location = op.location;
  copy->origin = op.origin;
  for (int i = 0; i < op.result_count(); ++i) copy->append_result(op.result(i)->type(), op.result(i)->name());
  return copy;
}

}  // namespace ipu::passes
