// Products and convolutions of f16 with f16 partial sums become what the host computes then (ops/linear/half_partials.h). The machine
// runs them whole. Everything else, float partials above all, stays as it is.
#include "ops/linear/half_partials.h"

#include "ir/builder.h"
#include "passes/pass.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

class HalfPartials : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    for (const auto& graph : module.graphs()) {
      ir::Op* next = nullptr;
      for (ir::Op* op = graph->ops().empty() ? nullptr : graph->ops().front().get(); op != nullptr;
           op = next) {
        poll_interruption();
        next = graph->next(op);
        if (!ops::has_half_partials(*op)) continue;
        ir::Builder builder(graph.get(), op);
        builder.settings = op->settings;
        builder.location = op->location;
        builder.origin = op->origin;
        ir::Value* sum = ops::build_with_half_partials(builder, *op);
        if (sum == nullptr) continue;
        const std::string name = op->result()->name();
        op->result()->replace_all_uses_with(sum);
        graph->erase(op);
        graph->rename(sum, name);
        context.count("products with half partials");
        changed = true;
      }
    }
    return changed;
  }
};

IPU_REGISTER_PASS(HalfPartials, "half-partials", "Sums f16 products and convolutions in f16, group by group.",
                  {"products with half partials"});

}  // namespace
}  // namespace ipu::passes
