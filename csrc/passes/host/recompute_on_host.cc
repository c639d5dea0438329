// Recomputation as this host does it: as planned for the ops the host runs, when the stash would not fit its memory or
// when it is told to, since on the host time is dearer than memory. After the passes that join ops: clones and
// originals stay apart, and a conversion of layouts is repeated like what it converts.
#include "passes/pass.h"
#include "passes/semantic/recomputation_plan.h"

namespace ipu::passes {
namespace {

class RecomputeOnHost : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    const RecomputationPlan plan(module);
    if (!plan.is_asked_for()) return false;
    const bool executes = context.host.executes_recomputation(plan.stash_bytes());
    context.count("recomputation executed", executes && plan.operations() > 0 ? 1 : 0);
    return executes && plan.execute();
  }
};

IPU_REGISTER_PASS(RecomputeOnHost, "recompute-on-host",
                  "Makes forward values again for the backward pass, if this host wants it.",
                  {"recomputation executed"});

}  // namespace
}  // namespace ipu::passes
