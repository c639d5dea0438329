// Importers of TensorFlow's variables: an op names the variable, and reads or gives its value at that place.
#include "ops/definition/importers.h"
#include "ops/definition/node_import_call.h"

namespace ipu::ops {
namespace {

void import_const(NodeImportCall& call) {
  call.ignore("dtype");
  call.set_constant(0, call.tensor("value"));
}

void import_read(NodeImportCall& call) {
  call.ignore("dtype");
  call.set_result(0, call.operand(0));
}

void ignore_assignment(NodeImportCall& call) {
  call.ignore("dtype");
  call.ignore("validate_shape");
}

void import_assign(NodeImportCall& call) {
  ignore_assignment(call);
  call.assign(0, call.operand(1));
}

NodeImporter update_by(const char* kind) {
  return [kind](NodeImportCall& call) {
    ignore_assignment(call);
    call.assign(0, call.op(kind, {call.operand(0), call.operand(1)}));
  };
}

struct VariableImporters {
  VariableImporters() {
    register_tensorflow_importer("Const", import_const);
    register_tensorflow_importer("ReadVariableOp", import_read);
    register_tensorflow_importer("AssignVariableOp", import_assign);
    register_tensorflow_importer("AssignAddVariableOp", update_by("add"));
    register_tensorflow_importer("AssignSubVariableOp", update_by("sub"));
  }
};
const VariableImporters variable_importers;

}  // namespace
}  // namespace ipu::ops
