// Importers of TensorFlow's softmax and log softmax, over the last dimension.
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

struct SoftmaxTensorflowImporters {
  SoftmaxTensorflowImporters() {
    for (const auto& [type, kind] : {std::pair{"Softmax", "softmax"}, {"LogSoftmax", "log_softmax"}})
      register_tensorflow_importer(type, [kind = kind](NodeImportCall& call) {
        ir::Value* x = call.operand(0);
        call.set_result(0, call.op(kind, {x}, {{"dim", node_dim(call, -1, x->type().shape.size())}}));
      });
  }
};
const SoftmaxTensorflowImporters softmax_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
