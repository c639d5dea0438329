// Replaces compounds that have no kernel of their own (mse_loss, l1_loss) by the ops they stand for.
// Compounds keep their name through autodiff and until here; those with a kernel keep it to the end. The
// replacement takes the names of the results and, by the compound's rule, its settings and location.
#include <fmt/core.h>

#include "ops/definition/op_def.h"
#include "passes/pass.h"
#include "support/error.h"

namespace ipu::passes {
namespace {

class Decompose : public OpPass {
 public:
  bool may_apply(const ir::Op& op) const override {
    const ops::OpDef* def = ops::definition(op);
    return def != nullptr && def->decompose && def->kernels(op).empty();
  }

  void apply(ir::Op& op, const PassContext& context) override {
    ir::Graph* graph = op.graph();
    const std::vector<ir::Value*> values = ops::definition(op)->decompose(op);
    IPU_CHECK(static_cast<int>(values.size()) == op.result_count(),
              fmt::format("'{}' decomposes to another number of results", op.kind()));
    std::vector<std::string> names;
    for (int i = 0; i < op.result_count(); ++i) {
      names.push_back(op.result(i)->name());
      op.result(i)->replace_all_uses_with(values[i]);
    }
    graph->erase(&op);
    for (size_t i = 0; i < values.size(); ++i) graph->rename(values[i], names[i]);
    context.count("ops decomposed");
  }
};

IPU_REGISTER_PASS(Decompose, "decompose", "Replaces compounds without a kernel by the ops they stand for.",
                  {"ops decomposed"});

}  // namespace
}  // namespace ipu::passes
