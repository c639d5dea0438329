// Importers of ONNX's activations that differ from the op of the name by their factors.
#include "ops/definition/node_import_call.h"
#include "ops/definition/op_def.h"

namespace ipu::ops {
namespace {

// The factors of version 1 and 6 in single precision, as the standard writes them.
void import_selu(NodeImportCall& call) {
  call.set_result(0, call.op("elu", {call.operand(0)},
                             {{"alpha", call.real("alpha", 1.67326319217681884765625)},
                              {"scale", call.real("gamma", 1.05070102214813232421875)}}));
}

ir::Value* scalar_like(NodeImportCall& call, ir::Value* x, double value) {
  return call.builder().scalar(x->type().dtype, value);
}

void import_hardsigmoid(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const double alpha = call.real("alpha", 0.2), beta = call.real("beta", 0.5);
  ir::Value* line =
      call.op("add", {call.op("mul", {x, scalar_like(call, x, alpha)}), scalar_like(call, x, beta)});
  call.set_result(0, call.op("clamp", {line}, {{"min", 0.0}, {"max", 1.0}}));
}

void import_softsign(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  call.set_result(0, call.op("div", {x, call.op("add", {call.op("abs", {x}), scalar_like(call, x, 1.0)})}));
}

void import_thresholded_relu(NodeImportCall& call) {
  call.set_result(
      0, call.op("threshold", {call.operand(0)}, {{"threshold", call.real("alpha", 1.0)}, {"value", 0.0}}));
}

struct Registrations {
  Registrations() {
    register_onnx_importer("Selu", {6}, import_selu);
    register_onnx_importer("HardSigmoid", {6}, import_hardsigmoid);
    register_onnx_importer("Softsign", {6}, import_softsign);
    register_onnx_importer("ThresholdedRelu", {10}, import_thresholded_relu);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
