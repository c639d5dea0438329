// Kinds of the authored form that stand for several ops (OpDef::expand) become those ops, with its settings,
// location, origin and order edges: what was ordered after the op is ordered after all of them.
#include <fmt/core.h>

#include <algorithm>

#include "ir/builder.h"
#include "ops/definition/op_def.h"
#include "passes/pass.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

class Expand : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    for (const auto& graph : module.graphs()) changed = run(*graph, context) || changed;
    return changed;
  }

 private:
  static bool run(ir::Graph& graph, const PassContext& context) {
    bool changed = false;
    ir::Op* next = nullptr;
    for (ir::Op* op = graph.ops().empty() ? nullptr : graph.ops().front().get(); op != nullptr; op = next) {
      poll_interruption();
      next = graph.next(op);
      const ops::OpDef* def = ops::definition(*op);
      if (def == nullptr || !def->expand) continue;
      expand(*op, *def);
      context.count("ops expanded");
      changed = true;
    }
    return changed;
  }

  static void expand(ir::Op& op, const ops::OpDef& def) {
    ir::Graph* graph = op.graph();
    ir::Builder builder(graph, &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    const ir::Op* before = graph->previous(&op);
    const std::vector<ir::Value*> values = def.expand(builder, op);
    IPU_CHECK(static_cast<int>(values.size()) == op.result_count(),
              fmt::format("'{}' expands to another number of results", op.kind()));
    std::vector<ir::Op*> made;
    for (ir::Op* one = before == nullptr ? graph->ops().front().get() : graph->next(before); one != &op;
         one = graph->next(one))
      made.push_back(one);
    const std::vector<ir::Op*> earlier(op.after.begin(), op.after.end());
    op.after.clear();
    for (ir::Op* one : made) {
      for (ir::Op* edge : earlier) one->after.push_back(edge);
      op.after.push_back(one);  // erasing the op hands these on to what was ordered after it
    }
    std::vector<std::string> names;
    for (int i = 0; i < op.result_count(); ++i) {
      names.push_back(op.result(i)->name());
      op.result(i)->replace_all_uses_with(values[static_cast<size_t>(i)]);
    }
    graph->erase(&op);
    for (size_t i = 0; i < values.size(); ++i)
      if (std::find(made.begin(), made.end(), values[i]->producer()) != made.end())
        graph->rename(values[i], names[i]);
  }
};

IPU_REGISTER_PASS(Expand, "expand", "Replaces kinds of the authored form by the ops they stand for.",
                  {"ops expanded"});

}  // namespace
}  // namespace ipu::passes
