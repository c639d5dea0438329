// The machine accumulates a gradient and updates a weight in one pass over its elements, as the vendor's library maps
// an expression: joins the elementwise ops that do it (passes/pointwise_groups.h), and nothing else. Those are the ones that
// run after the backward pass, and those of it that lead only to outputs of the graph. A conversion to a wider type is made in
// each pass that reads it. For the machine form; the host joins more (fuse-pointwise).
#include "ir/structure.h"
#include "ops/definition/effects.h"
#include "passes/op_table.h"
#include "passes/pointwise_groups.h"

namespace ipu::passes {
namespace {

class JoinUpdates : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    const Effects effects(module);
    for (const auto& graph : module.graphs()) {
      if (has_order_edges(*graph)) continue;
      OpTable<uint8_t> updates = find_updates(*graph);
      changed |= widen_where_read(*graph, updates);
      changed |= join_pointwise(*graph, effects, context,
                                [&](const ir::Op& op) { return updates.at(op) != 0 || is_after(op); });
    }
    return changed;
  }

 private:
  static bool is_after(const ir::Op& op) { return op.settings.context == ir::Context::kAccumulateOuter; }

  // 1: leads to outputs and assignments only.
  static OpTable<uint8_t> find_updates(const ir::Graph& graph) {
    OpTable<uint8_t> updates(0);
    for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at) {
      const ir::Op& op = **at;
      if (op.settings.context != ir::Context::kBackward || !ops::has_trait(op, ops::kElementwise)) continue;
      bool leads_on = true;
      for (int i = 0; i < op.result_count() && leads_on; ++i) {
        leads_on = op.result(i)->type().elements() > 1;
        for (const ir::Use& use : op.result(i)->uses())
          leads_on = leads_on && (updates.at(*use.user) != 0 || use.user->is(ir::kind::kVariableAssign));
      }
      updates[op] = leads_on ? 1 : 0;
    }
    return updates;
  }

  // Of several readers: what sums squares does so in f32 whatever it reads.
  static bool widen_where_read(ir::Graph& graph, OpTable<uint8_t>& updates) {
    std::vector<ir::Op*> casts;
    for (const auto& op : graph.ops())
      if (op->is("cast") && (updates.at(*op) != 0 || is_after(*op)) && op->result()->uses().size() > 1 &&
          op->operand(0)->type().dtype == DType::kF16 && op->result()->type().dtype == DType::kF32)
        casts.push_back(op.get());
    for (ir::Op* cast : casts) {
      const std::vector<ir::Use> uses(cast->result()->uses().begin(), cast->result()->uses().end());
      const ir::Op* last_user = nullptr;  // the first reader keeps the cast
      ir::Value* wide = cast->result();
      for (const ir::Use& use : uses) {
        if (use.user->is("square_sum")) {
          use.user->set_operand(use.index, cast->operand(0));
          continue;
        }
        if (last_user != nullptr && last_user != use.user) {
          ir::Op* copy = graph.copy(*cast, std::vector{cast->operand(0)}, use.user);
          updates[*copy] = updates.at(*cast);
          wide = copy->result();
        }
        last_user = use.user;
        use.user->set_operand(use.index, wide);
      }
      if (cast->result()->is_unused()) graph.erase(cast);
    }
    return !casts.empty();
  }
};

IPU_REGISTER_PASS(JoinUpdates, "join-updates",
                  "Joins what accumulates a gradient or updates a weight to one pass.",
                  {"ops fused", "groups"});

}  // namespace
}  // namespace ipu::passes
