// Importers of TensorFlow's bits and shifts.
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

struct LogicTensorflowImporters {
  LogicTensorflowImporters() {
    for (const auto& [type, kind] :
         {std::pair{"BitwiseAnd", "bitwise_and"}, {"BitwiseOr", "bitwise_or"}, {"BitwiseXor", "bitwise_xor"}})
      register_tensorflow_importer(type, [kind = kind](NodeImportCall& call) {
        set_result(call, Term::op(kind, term(call, 0), term(call, 1)));
      });
  }
};
const LogicTensorflowImporters logic_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
