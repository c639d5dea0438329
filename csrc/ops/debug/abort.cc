// abort: ends the run with an error where a value is not zero.
#include "kernels/debug/abort.h"

#include "ops/definition/graphcore_nodes.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

// Without an operand it always ends the run.
void import_abort(NodeImportCall& call) {
  call.op("abort", {call.operand_count() > 0 ? call.operand(0) : call.builder().scalar(DType::kI32, 1.0)});
}

const OpRegistration abort_op =
    define_op("abort", "debug")
        .doc("x; ends the run with an error when an element of x is not zero.")
        .operand("x", kNumber | kBoolean)
        .result("y")
        .traits(kSideEffects | kMayReuseFirstOperand)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{c.operand(0)}; })
        .gradient([](GradientBuilder& g) { g.set(0, g.upstream()); })
        .work([](const ir::Op& op) { return std::vector{reduction_of(op.operand(0)->type(), 1)}; })
        .reference([](ReferenceCall& call) {
          for (size_t i = 0; i < call.operand(0).values.size(); ++i)
            if (call.operand(0).values[i] != 0.0) kernels::raise_abort(static_cast<int64_t>(i));
          call.result(0).values = call.operand(0).values;
        })
        .samples(
            {{{ir::Type{DType::kI32, {2, 3}}}, {}, 0, 0, {}}, {{ir::Type{DType::kI32, {}}}, {}, 0, 0, {}}});

struct AbortRegistrations {
  AbortRegistrations() {
    register_graphcore_importer(
        {"Abort", "abort", "x?:NB", "", "none", "args:ids=[]",
         "Ends the run with an error; with an input, when one of its elements is not zero."},
        import_abort);
  }
};
const AbortRegistrations abort_registrations;

}  // namespace
}  // namespace ipu::ops
