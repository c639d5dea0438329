// Importers of TensorFlow's matrix products.
#include <utility>

#include "ops/definition/importers.h"
#include "ops/definition/node_import_call.h"
#include "ops/definition/rule_support.h"
#include "ops/linear/matrix_product.h"

namespace ipu::ops {
namespace {

ir::Value* turned(NodeImportCall& call, ir::Value* matrix, const char* attribute) {
  if (!call.has(attribute) || !call.boolean(attribute)) return matrix;
  return transposed(call, matrix, {1, 0});
}

// `grad_a` and `grad_b` tell TensorFlow's own kernels what the product is part of.
void import_matmul(NodeImportCall& call) {
  for (const char* name : {"T", "grad_a", "grad_b"}) call.ignore(name);
  ir::Value* a = turned(call, call.operand(0), "transpose_a");
  ir::Value* b = turned(call, call.operand(1), "transpose_b");
  call.set_result(0, matrix_product(call, call.described(), a, b));
}

struct ProductImporters {
  ProductImporters() { register_tensorflow_importer("MatMul", import_matmul); }
};
const ProductImporters product_importers;

}  // namespace
}  // namespace ipu::ops
