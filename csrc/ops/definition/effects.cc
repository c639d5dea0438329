#include "ops/definition/effects.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "ir/regions.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::ops {

ir::Effects OpDef::effects(const ir::Op& op) const {
  ir::Effects effects;
  effects.state = state();
  if (has(kReadsShapeOnly))
    for (int i = 0; i < op.operand_count(); ++i) effects.unread.push_back(i);
  const int operand = in_place_operand(op);
  if (operand < 0) return effects;
  if (!view) {
    effects.writes.push_back({operand, std::nullopt});
    effects.aliases.push_back({operand, 0, nullptr});
    return effects;
  }
  const int bases = view->all_operands ? op.operand_count() : 1;
  effects.unread.clear();
  for (int i = 0; i < bases; ++i) {
    effects.aliases.push_back({i, 0, &*view});
    effects.unread.push_back(i);
  }
  return effects;
}

ir::Effects effects(const ir::Op& op) {
  if (ir::is_structural(op)) return ir::structural_effects(op);
  if (const OpDef* def = definition(op)) return def->effects(op);
  ir::Effects unknown;
  unknown.state = ir::StateEffect::kUnknown;
  return unknown;
}

ir::StateEffect state_effect(const ir::Op& op) {
  if (ir::is_structural(op)) return ir::structural_state(op);
  const OpDef* def = definition(op);
  return def == nullptr ? ir::StateEffect::kUnknown : def->state();
}

bool has_side_effects(const ir::Op& op) {
  auto alone = [](const ir::Op& one) {
    return state_effect(one) >= ir::StateEffect::kChanges || one.is(ir::kind::kWrite) ||
           one.attributes.has("modified") || (in_place_operand(one) >= 0 && view_rule(one) == nullptr);
  };
  if (alone(op)) return true;
  if (!ir::is_region(op)) return false;
  // Each called graph once, with a list instead of recursion: graphs may share callees and call each other
  // deeply.
  std::vector<ir::Graph*> graphs = ir::called_graphs(op);
  std::unordered_set<const ir::Graph*> seen(graphs.begin(), graphs.end());
  for (size_t i = 0; i < graphs.size(); ++i)
    for (const auto& inner : graphs[i]->ops()) {
      if (alone(*inner)) return true;
      if (!ir::is_region(*inner)) continue;
      for (ir::Graph* callee : ir::called_graphs(*inner))
        if (seen.insert(callee).second) graphs.push_back(callee);
    }
  return false;
}

bool is_function(const ir::Op& op) {
  const OpDef* def = definition(op);
  return def != nullptr && def->state() == ir::StateEffect::kNone && !def->has(kRandom) &&
         in_place_operand(op) < 0;
}

const ir::ViewRule* view_rule(const ir::Op& op) {
  const OpDef* def = definition(op);
  return def != nullptr && def->view ? &*def->view : nullptr;
}

int in_place_operand(const ir::Op& op) {
  if (const Attribute* given = op.attributes.find(ir::kInPlace))
    if (const auto* operand = std::get_if<int64_t>(given)) return static_cast<int>(*operand);
  const OpDef* def = definition(op);
  return def != nullptr && def->modifies ? *def->modifies : -1;
}

std::string in_place_problem(const ir::Op& op) {
  const Attribute* given = op.attributes.find(ir::kInPlace);
  if (given == nullptr) return {};
  const auto* operand = std::get_if<int64_t>(given);
  if (operand == nullptr || *operand < 0 || *operand >= op.operand_count() ||
      op.operand(static_cast<int>(*operand)) == nullptr)
    return fmt::format("attribute '{}' is the number of an operand", ir::kInPlace);
  const OpDef* def = definition(op);
  if (def == nullptr)
    return fmt::format("has '{}', and only ops with a definition work in place", ir::kInPlace);
  if (def->modifies)
    return fmt::format("has '{}', and '{}' modifies operand {} anyway", ir::kInPlace, op.kind(),
                       *def->modifies);
  if (def->view)
    return *operand == 0 ? "" : fmt::format("is a view of operand 0, not of operand {}", *operand);
  const ir::Type& into = op.operand(static_cast<int>(*operand))->type();
  if (op.result_count() == 0) return fmt::format("has '{}' and no result", ir::kInPlace);
  if (into.dtype == op.result()->type().dtype && into.shape == op.result()->type().shape) return {};
  return fmt::format("works in place of %{}, which is {}, and its result is {}",
                     op.operand(static_cast<int>(*operand))->name(), ir::to_string(into),
                     ir::to_string(op.result()->type()));
}

ir::Value* rebuild_view(ir::Builder& builder, const ir::Op& view, std::span<ir::Value* const> operands) {
  Attributes attributes = view.attributes;
  attributes.erase(ir::kInPlace);
  return build_op(builder, view.kind(), operands, std::move(attributes))->result();
}

namespace {
// Outputs were appended to its callee after the call.
bool lacks_results(const ir::Op& op) {
  if (!ir::is_call(op)) return false;
  const std::vector<ir::Graph*> callee = ir::called_graphs(op);
  return !callee.empty() && op.result_count() < static_cast<int>(callee[0]->outputs().size());
}
}  // namespace

bool is_authored(const ir::Op& op) {
  return !op.after.empty() || op.is(ir::kind::kWrite) || op.attributes.has("modified") ||
         in_place_operand(op) >= 0 || lacks_results(op);
}

ir::Form form_of(const ir::Module& module) {
  for (const auto& graph : module.graphs()) {
    for (const ir::Value* input : graph->inputs())
      if (input->by_reference) return ir::Form::kAuthored;
    for (const auto& op : graph->ops())
      if (is_authored(*op)) return ir::Form::kAuthored;
  }
  return ir::Form::kFunctional;
}

}  // namespace ipu::ops
