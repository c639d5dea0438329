// Importers of ONNX's matrix products.
#include <fmt/core.h>

#include "ops/definition/node_support.h"
#include "ops/linear/matrix_product.h"

namespace ipu::ops {
namespace {

void import_matmul(NodeImportCall& call) {
  call.set_result(0, matrix_product(call, call.described(), call.operand(0), call.operand(1)));
}

ir::Value* scaled(NodeImportCall& call, ir::Value* value, double factor) {
  if (factor == 1.0) return value;
  return call.op("mul", {value, call.builder().scalar(value->type().dtype, factor)});
}

// alpha * a * b + beta * c. A fully connected layer (weight [out, in], one bias per column) stays one op.
void import_gemm(NodeImportCall& call) {
  ir::Value *a = call.operand(0), *b = call.operand(1);
  ir::Value* c = call.has_operand(2) ? call.operand(2) : nullptr;
  const double alpha = call.real("alpha", 1.0), beta = call.real("beta", 1.0);
  const bool trans_a = call.integer("transA", 0) != 0, trans_b = call.integer("transB", 0) != 0;
  for (const ir::Value* factor : {a, b})
    if (factor->type().shape.size() != 2)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of {} and {}; both are matrices.", call.described(),
                              to_string(a->type().shape), to_string(b->type().shape)));
  // Version 6: c broadcasts only where the node says so.
  const bool broadcasts = call.version() >= 7 || call.integer("broadcast", 0) == 1;
  const bool is_layer = broadcasts && c != nullptr && !trans_a && trans_b && alpha == 1.0 && beta == 1.0;
  if (is_layer && c->type().shape == Shape{b->type().shape[0]})
    return call.set_result(0, call.op("linear", {a, b, c}));
  ir::Value* y = scaled(call, call.op("matmul", {a, b}, {{"trans_a", trans_a}, {"trans_b", trans_b}}), alpha);
  if (c == nullptr || beta == 0.0) return call.set_result(0, y);
  const Shape& result = y->type().shape;
  if (broadcasts ? broadcast_shapes(result, c->type().shape) != result : c->type().shape != result)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} adds {} to {}.", call.described(),
                                                      to_string(c->type().shape), to_string(result)));
  call.set_result(0, call.op("add", {y, scaled(call, c, beta)}));
}

struct Registrations {
  Registrations() {
    register_onnx_importer("MatMul", {6}, import_matmul);
    register_onnx_importer("Gemm", {6}, import_gemm);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops
