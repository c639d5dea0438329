// Products and convolutions of f16 whose partial sums the front end wants in f16: they become what they are then
// (ops/linear/half_partials.h), by the strategy of the module or, for one convolution or product, by its setting
// "multi_conv_partials" or "matmul_partials". Everything else, float partials above all, stays as it is.
#include "ops/linear/half_partials.h"

#include "ir/builder.h"
#include "ir/strategy.h"
#include "ops/definition/op_def.h"
#include "passes/pass.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

class HalfPartials : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    const ir::Strategy strategy = ir::strategy_of(module);
    bool changed = false;
    for (const auto& graph : module.graphs()) {
      ir::Op* next = nullptr;
      for (ir::Op* op = graph->ops().empty() ? nullptr : graph->ops().front().get(); op != nullptr;
           op = next) {
        poll_interruption();
        next = graph->next(op);
        if (!is_wanted(*op, strategy)) continue;
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

 private:
  static bool is_wanted(const ir::Op& op, const ir::Strategy& strategy) {
    const ops::OpDef* def = ops::definition(op);
    if (def == nullptr) return false;
    const bool is_product = def->family == "linear";
    if (!is_product && !def->has(ops::kConvolution)) return false;
    const Attribute* own = op.settings.outline.find(is_product ? "matmul_partials" : "multi_conv_partials");
    if (own != nullptr) return *own == Attribute(std::string("half"));
    return is_product ? strategy.half_products : strategy.half_convolutions;
  }
};

IPU_REGISTER_PASS(HalfPartials, "half-partials", "Sums f16 products and convolutions in f16, group by group.",
                  {"products with half partials"});

}  // namespace
}  // namespace ipu::passes
