// Importers of the layer norm of our TensorFlow package and of its gradient (tensorflow_ipu/src/ipu_tensorflow/
// normalization_ops.py, where the same is said in TensorFlow). Operands: x, then gamma if it `scales`, then beta if it `centers`; a gradient
// has that of y behind them, and a result for each operand.
#include <fmt/core.h>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

struct Operands {
  ir::Value *x, *gamma = nullptr, *beta = nullptr;
  ir::Value* dy = nullptr;  // of a gradient
};

Operands read_operands(NodeImportCall& call, bool is_gradient) {
  int next = 0;
  Operands found{.x = call.operand(next++)};
  if (flag(call, "scales")) found.gamma = call.operand(next++);
  if (flag(call, "centers")) found.beta = call.operand(next++);
  if (is_gradient) {
    found.dy = call.operand(next);
    if (found.dy->type().shape != found.x->type().shape)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of x {} and the gradient {} of y.", call.described(),
                              to_string(found.x->type().shape), to_string(found.dy->type().shape)));
  }
  return found;
}

// Over the last dimensions from `axis` on, to which gamma and beta broadcast. A gradient says the norm of the forward pass again, for its
// statistics: equal ops become one.
void import_layer_norm(NodeImportCall& call, bool is_gradient) {
  const Operands o = read_operands(call, is_gradient);
  Attributes attributes{{"axis", call.integer("axis")}, {"eps", call.real("epsilon")}};
  const ir::Op* norm =
      build_op(call.builder(), "layer_norm", std::vector<ir::Value*>{o.x, o.gamma, o.beta}, attributes);
  if (!is_gradient) return call.set_result(0, norm->result(0));
  Shape wants{0};
  if (o.gamma != nullptr) wants.push_back(1);
  if (o.beta != nullptr) wants.push_back(2);
  attributes.set("wants", wants);
  const std::vector<ir::Value*> operands{o.x, o.gamma, o.beta, norm->result(1), norm->result(2), o.dy};
  const ir::Op* gradient = build_op(call.builder(), "layer_norm_gradient", operands, attributes);
  for (int i = 0; i < std::ssize(wants); ++i) call.set_result(i, gradient->result(i));
}

struct LayerNormTensorflowImporters {
  LayerNormTensorflowImporters() {
    register_tensorflow_importer(
        "LayerNorm", [](NodeImportCall& call) { import_layer_norm(call, false); }, kIpu);
    register_tensorflow_importer(
        "LayerNormGradient", [](NodeImportCall& call) { import_layer_norm(call, true); }, kIpu);
  }
};
const LayerNormTensorflowImporters layer_norm_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
