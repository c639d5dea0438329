// Joins elementwise ops that feed each other (passes/pointwise_groups.h), wherever they are.
#include "passes/pointwise_groups.h"

namespace ipu::passes {
namespace {

class FusePointwise : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    bool changed = false;
    const Effects effects(module);
    for (const auto& graph : module.graphs()) changed |= join_pointwise(*graph, effects, context);
    return changed;
  }
};

IPU_REGISTER_PASS(FusePointwise, "fuse-pointwise", "Joins elementwise ops that feed each other into one.",
                  {"ops fused", "groups"});

}  // namespace
}  // namespace ipu::passes
