// Importers of TensorFlow's activations and of their gradients, whose operands are (dy, x) or (dy, y).
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

constexpr double kSeluAlpha = 1.6732632423543772848170429916717,
                 kSeluScale = 1.0507009873554804934193349852946;

// Our gradients take (x or y, dy).
NodeImporter gradient_of(const char* kind, Attributes attributes = {}) {
  return [kind, attributes](NodeImportCall& call) {
    call.set_result(0, call.op(kind, {call.operand(1), call.operand(0)}, attributes));
  };
}

NodeImporter function_of(const char* kind, Attributes attributes) {
  return [kind, attributes](NodeImportCall& call) {
    call.set_result(0, call.op(kind, {call.operand(0)}, attributes));
  };
}

// Softplus of large x is x, of small x is exp(x): the same numbers with no branch.
void import_softplus(NodeImportCall& call) {
  const Term x = term(call, 0);
  set_result(call, maximum(x, 0.0) + exp(-absolute(x)).op("log1p"));
}

void import_softplus_gradient(NodeImportCall& call) {
  set_result(call, term(call, 0) * term(call, 1).op("sigmoid"));
}

void import_softsign(NodeImportCall& call) {
  const Term x = term(call, 0);
  set_result(call, x / (absolute(x) + 1.0));
}

void import_softsign_gradient(NodeImportCall& call) {
  set_result(call, term(call, 0) / square(absolute(term(call, 1)) + 1.0));
}

// By the value y of the function: where it is below 0 its slope is y + scale * alpha.
void import_elu_gradient(NodeImportCall& call, double alpha, double scale) {
  const Term dy = term(call, 0), y = term(call, 1);
  set_result(call, (y < 0.0).choose(dy * (y + alpha * scale), dy * scale));
}

struct ActivationTensorflowImporters {
  ActivationTensorflowImporters() {
    register_tensorflow_importer("ReluGrad", gradient_of("relu_gradient"));
    register_tensorflow_importer("Relu6", function_of("hardtanh", {{"min", 0.0}, {"max", 6.0}}));
    register_tensorflow_importer("Relu6Grad", gradient_of("hardtanh_gradient", {{"min", 0.0}, {"max", 6.0}}));
    register_tensorflow_importer("LeakyRelu", [](NodeImportCall& call) {
      call.set_result(0, call.op("leaky_relu", {call.operand(0)}, {{"slope", call.real("alpha", 0.2)}}));
    });
    register_tensorflow_importer("LeakyReluGrad", [](NodeImportCall& call) {
      call.set_result(0, call.op("leaky_relu_gradient", {call.operand(1), call.operand(0)},
                                 {{"slope", call.real("alpha", 0.2)}}));
    });
    register_tensorflow_importer("Elu", function_of("elu", {}));
    register_tensorflow_importer("Selu", function_of("elu", {{"alpha", kSeluAlpha}, {"scale", kSeluScale}}));
    register_tensorflow_importer("EluGrad", [](NodeImportCall& c) { import_elu_gradient(c, 1.0, 1.0); });
    register_tensorflow_importer("SeluGrad",
                                 [](NodeImportCall& c) { import_elu_gradient(c, kSeluAlpha, kSeluScale); });
    register_tensorflow_importer("Softplus", import_softplus);
    register_tensorflow_importer("SoftplusGrad", import_softplus_gradient);
    register_tensorflow_importer("Softsign", import_softsign);
    register_tensorflow_importer("SoftsignGrad", import_softsign_gradient);
  }
};
const ActivationTensorflowImporters activation_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
