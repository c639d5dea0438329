// Replaces compounds that have no kernel of their own (layer_norm, attention, mse_loss) by the ops they stand
// for. Compounds keep their name through autodiff and until here; those with a kernel keep it to the end. The
// replacement takes the names of the results and, by the compound's rule, its settings and location.
// The gradient of a compound reads what the compound made in the same graph, if that is on the same IPU, in
// an earlier pipeline stage as well: such values are stashed. Elsewhere it makes again, from the operands and
// the saved results, what it needs.
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "ops/definition/decomposition.h"
#include "ops/definition/kernel_choice.h"
#include "passes/effects.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

using Operands = std::vector<ir::Value*>;

// Compounds of one graph that were replaced in this sweep; their parts are still there.
class Replaced {
 public:
  void add(const ir::Op& op, const ops::Parts& parts) {
    Operands operands;
    for (int i = 0; i < op.operand_count(); ++i) operands.push_back(op.operand(i));
    const size_t all = ops::definition(op)->operands.size();
    if (operands.size() < all) operands.resize(all, nullptr);  // absent ones at the end
    by_operands_[{op.kind(), std::move(operands)}].push_back({op.attributes, op.settings.ipu, parts});
  }

  // The parts of the compound whose gradient `op` is; nullptr when they are not to be shared.
  const ops::Parts* of(const ir::Op& op) const {
    const ops::CompoundGradient gradient(op);
    if (gradient.repeats_operand()) return nullptr;
    auto at = by_operands_.find({gradient.forward_kind(), gradient.forward_operands()});
    if (at == by_operands_.end()) return nullptr;
    const Attributes attributes = gradient.forward_attributes();
    for (const Entry& entry : at->second)
      if (entry.ipu == op.settings.ipu && entry.attributes == attributes && gradient.is_of(entry.parts))
        return &entry.parts;
    return nullptr;
  }

 private:
  struct Entry {
    Attributes attributes;
    std::optional<int> ipu;
    ops::Parts parts;
  };
  std::map<std::tuple<std::string, Operands>, std::vector<Entry>> by_operands_;
};

bool is_replaced(const ir::Op& op) {
  const ops::OpDef* def = ops::definition(op);
  return def != nullptr && def->decompose && !ops::choose_kernel(op);
}

class Decompose : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    for (const auto& graph : module.graphs()) {
      if (has_order_edges(*graph)) continue;
      while (sweep(*graph, context)) changed = true;  // parts may be compounds in turn
    }
    return changed;
  }

 private:
  static bool sweep(ir::Graph& graph, const PassContext& context) {
    Replaced replaced;
    bool changed = false;
    ir::Op* next = nullptr;
    for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().front().get(); op != nullptr; op = next) {
      poll_interruption();
      next = graph.next(op);
      if (!is_replaced(*op)) continue;
      replace(*op, replaced);
      context.count("ops decomposed");
      changed = true;
    }
    return changed;
  }

  static void replace(ir::Op& op, Replaced& replaced) {
    ir::Graph* graph = op.graph();
    const ir::Op* before = graph->previous(&op);
    std::vector<ir::Value*> values;
    if (ops::definition(op)->gradient_of) {
      values = ops::decompose_gradient(op, replaced.of(op));
    } else {
      const ops::Parts parts = ops::build_parts(op);
      values = parts.results;
      replaced.add(op, parts);
    }
    std::unordered_set<const ir::Op*> made;
    for (const ir::Op* at = graph->previous(&op); at != before; at = graph->previous(at)) made.insert(at);
    std::vector<std::string> names;
    for (int i = 0; i < op.result_count(); ++i) names.push_back(op.result(i)->name());
    replace_op(op, values);
    for (size_t i = 0; i < values.size(); ++i)
      if (made.contains(values[i]->producer())) graph->rename(values[i], names[i]);
  }
};

IPU_REGISTER_PASS(Decompose, "decompose", "Replaces compounds without a kernel by the ops they stand for.",
                  {"ops decomposed"});

}  // namespace
}  // namespace ipu::passes
