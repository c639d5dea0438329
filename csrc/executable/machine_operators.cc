#include "executable/machine_operators.h"

#include "ir/node_marks.h"
#include "passes/pass.h"

namespace ipu::executable {

std::unique_ptr<ir::Module> machine_form_of(std::unique_ptr<ir::Module> module,
                                            const target::System& system) {
  passes::PassContext context;
  context.system = &system;
  passes::run_pipeline(*module, passes::named_pipelines().at("machine-form"), context,
                       passes::verify_from_environment(passes::Verify::kNever));
  return module;
}

RecomputedOperators recomputed_operators(const ir::Module& machine) {
  RecomputedOperators found;
  for (const auto& graph : machine.graphs())
    for (const auto& op : graph->ops()) {
      if (op->settings.recompute != ir::Recompute::kRecompute || op->origin == nullptr ||
          !op->origin->attributes.has(ir::kOriginNode))
        continue;
      const bool is_forward = op->settings.context == ir::Context::kForward;
      (is_forward ? found.marked : found.repeated).insert(op->origin->attributes.text(ir::kOriginNode));
    }
  return found;
}

}  // namespace ipu::executable
