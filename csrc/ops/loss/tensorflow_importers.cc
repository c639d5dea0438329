// Importers of TensorFlow's cross entropies of scores [B, C]: the losses [B], and their gradient for the scores.
#include <limits>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

const std::string kEach = "none";

void import_soft(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *target = call.operand(1);
  const Shape shape = broadcast_shapes(x->type().shape, target->type().shape);
  x = expanded(call, x, shape);
  target = expanded(call, target, shape);
  call.set_result(0, call.op("soft_cross_entropy", {x, target}, {{"reduction", kEach}}));
  if (call.has_result(1))
    call.set_result(1, call.op("sub", {call.op("softmax", {x}, {{"dim", int64_t{1}}}), target}));
}

// Every class counts.
void import_sparse(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *target = call.cast(call.operand(1), DType::kI32);
  const Attributes attributes{{"reduction", kEach},
                              {"ignore_index", int64_t{std::numeric_limits<int32_t>::min()}}};
  call.set_result(0, call.op("cross_entropy", {x, target}, attributes));
  if (!call.has_result(1)) return;
  ir::Value* ones = call.builder().splat({x->type().dtype, target->type().shape}, 1.0);
  call.set_result(1, call.op("cross_entropy_gradient", {ones, x, target}, attributes));
}

struct LossTensorflowImporters {
  LossTensorflowImporters() {
    register_tensorflow_importer("SoftmaxCrossEntropyWithLogits", import_soft);
    register_tensorflow_importer("SparseSoftmaxCrossEntropyWithLogits", import_sparse);
  }
};
const LossTensorflowImporters loss_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
