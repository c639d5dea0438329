// Replaces a loop that runs once by its body, and a loop that never runs by the values it would carry.
// Leaves loops with a condition (`while`) alone: whether they run is known on the device only. Leaves
// pipelines alone.
#include "ir/builder.h"
#include "ir/regions.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

class InlineSingleTripLoops : public OpPass {
 public:
  bool may_apply(const ir::Op& op) const override {
    return op.is(ir::kind::kLoop) && op.attributes.integer("trip") <= 1 &&
           !op.attributes.boolean("while", false) && !op.attributes.has("modified");
  }

  void apply(ir::Op& op, const PassContext& context) override {
    const ir::Region loop(op);
    if (op.attributes.integer("trip") == 0) {
      std::vector<ir::Value*> start = loop.arguments();
      start.erase(start.begin(), start.begin() + loop.input(0));
      replace_op(op, start);
    } else {
      const ir::Graph& body = loop.body();
      ir::Value* index = nullptr;  // nobody reads it
      if (!body.inputs()[loop.index_input()]->is_unused()) {
        ir::Builder builder(op.graph(), &op);
        builder.settings = op.settings;
        builder.location = op.location;
        index = builder.scalar(DType::kI32, 0);
      }
      replace_op(op, inline_before(op, body, loop.arguments(index)));
    }
    context.count("loops inlined");
  }
};

IPU_REGISTER_PASS(InlineSingleTripLoops, "inline-single-trip-loops",
                  "Replaces loops that run once by their body.", {"loops inlined"});

}  // namespace
}  // namespace ipu::passes
