// Importers of TensorFlow's arithmetic. Attributes that repeat what follows from operands ("T") are ignored.
#include "ops/definition/importers.h"
#include "ops/definition/node_import_call.h"

namespace ipu::ops {
namespace {

NodeImporter binary(const char* kind) {
  return [kind](NodeImportCall& call) {
    call.ignore("T");
    call.set_result(0, call.op(kind, {call.operand(0), call.operand(1)}));
  };
}

struct ArithmeticImporters {
  ArithmeticImporters() {
    register_tensorflow_importer("AddV2", binary("add"));
    register_tensorflow_importer("Sub", binary("sub"));
    register_tensorflow_importer("Mul", binary("mul"));
  }
};
const ArithmeticImporters arithmetic_importers;

}  // namespace
}  // namespace ipu::ops
