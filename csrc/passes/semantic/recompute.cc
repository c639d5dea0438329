// Recomputation as the machine does it: planned here, counted always, and carried out. The host decides for itself
// (recompute-on-host).
#include "passes/pass.h"
#include "passes/semantic/recomputation_plan.h"

namespace ipu::passes {
namespace {

class PlanRecomputation : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    const RecomputationPlan plan(module);
    if (!plan.is_asked_for()) return false;
    context.count("ops recomputed", plan.operations());
    context.count("stash bytes", plan.stash_bytes());
    context.count("stash bytes with recomputation", plan.stash_bytes_left());
    return false;
  }
};

IPU_REGISTER_PASS(PlanRecomputation, "plan-recomputation",
                  "Counts what the backward pass would make again, and what it would keep.",
                  {"ops recomputed", "stash bytes", "stash bytes with recomputation"});

class RecomputePass : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    const RecomputationPlan plan(module);
    context.count("ops made again", plan.operations());
    return plan.execute();
  }
};

IPU_REGISTER_PASS(RecomputePass, "recompute", "Makes forward values again for the backward pass, as planned.",
                  {"ops made again"});

}  // namespace
}  // namespace ipu::passes
