// Replaces a loop that runs once by its body, and a loop that never runs by the values it would carry.
// Leaves loops with a condition (`while`) alone: whether they run is known on the device only. Leaves
// pipelines alone.
#include "ir/builder.h"
#include "ir/structure.h"
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
    std::vector<ir::Value*> values;
    for (int i = 0; i < op.operand_count(); ++i) values.push_back(op.operand(i));
    if (op.attributes.integer("trip") == 1) {
      const ir::Graph* body = ir::called_graphs(op).at(0);
      if (body->inputs()[0]->is_unused()) {
        values.insert(values.begin(), values.empty() ? nullptr : values[0]);  // nobody reads the index
      } else {
        ir::Builder builder(op.graph(), &op);
        builder.settings = op.settings;
        builder.location = op.location;
        values.insert(values.begin(), builder.scalar(DType::kI32, 0));
      }
      values = inline_before(op, *body, values);
    }
    replace_op(op, values);
    context.count("loops inlined");
  }
};

IPU_REGISTER_PASS(InlineSingleTripLoops, "inline-single-trip-loops",
                  "Replaces loops that run once by their body.", {"loops inlined"});

}  // namespace
}  // namespace ipu::passes
