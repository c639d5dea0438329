// Importers of ONNX's activations that differ from the op of the name by their factors.
#include <limits>

#include "ops/definition/node_import_call.h"
#include "ops/definition/op_def.h"
#include "ops/definition/popart_operators.h"

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

// 0 where |x| is at most `lambd`, elsewhere x drawn towards 0 by `bias`.
void import_shrink(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const double bound = call.real("lambd", 0.5), bias = call.real("bias", 0.0);
  ir::Value* kept = x;
  if (bias != 0.0)
    kept = call.op("sub", {x, call.op("mul", {call.op("sign", {x}), scalar_like(call, x, bias)})});
  ir::Value* small = call.op("less_equal", {call.op("abs", {x}), scalar_like(call, x, bound)});
  call.set_result(0, call.op("where", {small, scalar_like(call, x, 0.0), kept}));
}

void import_is_inf(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const double infinity = std::numeric_limits<double>::infinity();
  ir::Value* found = nullptr;
  for (const auto& [name, value] : {std::pair{"detect_positive", infinity}, {"detect_negative", -infinity}}) {
    if (call.integer(name, 1) == 0) continue;
    ir::Value* is_that = call.op("equal", {x, scalar_like(call, x, value)});
    found = found == nullptr ? is_that : call.op("logical_or", {found, is_that});
  }
  call.set_result(0, found == nullptr ? call.builder().splat({DType::kBool, x->type().shape}, 0.0) : found);
}

struct ActivationOnnxImporters {
  ActivationOnnxImporters() {
    register_onnx_importer("Selu", {6}, import_selu);
    register_onnx_importer("HardSigmoid", {6}, import_hardsigmoid);
    register_onnx_importer("Softsign", {6}, import_softsign);
    register_onnx_importer("Shrink", {9}, import_shrink);
    register_onnx_importer("IsInf", {10}, import_is_inf);
    register_onnx_importer("ThresholdedRelu", {10}, import_thresholded_relu);
  }
};
const ActivationOnnxImporters activation_onnx_importers;

const PopartOperators activation_popart = {{
    {"HardSigmoid", "1 6", "X:N", "Y:N", "yes", "alpha beta"},
    {"IsInf", "10", "X:FLOAT", "Y:BOOL", "none", "detect_negative detect_positive"},
    {"Selu", "1 6", "X:N", "Y:N", "yes", "alpha gamma"},
    {"Shrink", "9", "X:N", "Y:N", "yes", "bias lambd"},
    {"Softsign", "1", "X:N", "Y:N"},
    {"ThresholdedRelu", "10", "X:N", "Y:N", "yes", "alpha"},
}};

}  // namespace
}  // namespace ipu::ops
