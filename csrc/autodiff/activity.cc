// One forward sweep over the ops; the reading of a value is in ops/ (gradient kinds) and in the no_grad
// setting.
#include "autodiff/activity.h"

#include "autodiff/differentiate.h"
#include "autodiff/in_graph.h"
#include "ir/structure.h"
#include "ops/definition/op_def.h"

namespace ipu::autodiff {
namespace {

bool reads_any(const ir::Op& op, const std::unordered_set<const ir::Value*>& values) {
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) != nullptr && values.contains(op.operand(i)) && takes_gradient(op, i)) return true;
  return false;
}

}  // namespace

bool stops_gradients(const ir::Op& op) {
  if (op.settings.no_grad) return true;
  const ops::OpDef* def = ops::definition(op);
  return def != nullptr && def->gradient_kind == ops::GradientKind::kZero;
}

Activity find_activity(const ir::Graph& graph, const std::vector<ir::Value*>& required,
                       bool through_integers) {
  Activity activity;
  activity.graph_ = &graph;
  activity.active_.insert(required.begin(), required.end());
  for (const auto& op : graph.ops()) {
    if (stops_gradients(*op) || !reads_any(*op, activity.active_)) continue;
    for (int i = 0; i < op->result_count(); ++i)
      if (carries_gradient(op->result(i)->type().dtype, through_integers))
        activity.active_.insert(op->result(i));
  }
  return activity;
}

const ir::Op* Activity::first_reader(const ir::Value* input) const {
  const ir::Op* first = nullptr;
  // Ids grow with creation, which is the order of capture.
  for (const ir::Use& use : input->uses())
    if (first == nullptr || use.user->id() < first->id()) first = use.user;
  return first;
}

const ir::Op* Activity::integer_cut(const ir::Value* input, const std::vector<ir::Value*>& outputs) const {
  // Rare (the way to an error message), so a sweep of its own. `cut` holds the first integer op before each
  // value.
  std::unordered_set<const ir::Value*> floating{input};
  std::unordered_map<const ir::Value*, const ir::Op*> cut;
  for (const auto& op : graph_->ops()) {
    if (stops_gradients(*op)) continue;
    const ir::Op* from = nullptr;
    for (int i = 0; i < op->operand_count() && from == nullptr; ++i)
      if (auto at = cut.find(op->operand(i)); at != cut.end()) from = at->second;
    const bool is_floating = reads_any(*op, floating);
    for (int i = 0; i < op->result_count(); ++i) {
      if (is_floating && is_floating_point(op->result(i)->type().dtype)) {
        floating.insert(op->result(i));
      } else if (from != nullptr || is_floating) {
        cut[op->result(i)] = from != nullptr ? from : op.get();
      }
    }
  }
  for (const ir::Value* output : outputs)
    if (auto at = cut.find(output); at != cut.end()) return at->second;
  return nullptr;
}

}  // namespace ipu::autodiff
