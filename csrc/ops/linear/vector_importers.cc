// Importers of products and distances of vectors: cross products, all distances between two sets of rows.
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

// Components (1, 2, 0) and (2, 0, 1) of the three along dim.
ir::Value* turned(AtenImportCall& call, ir::Value* x, int64_t dim, int64_t first) {
  return concatenated(call, {sliced(call, x, dim, first, 3 - first), sliced(call, x, dim, 0, first)}, dim);
}

void import_cross(AtenImportCall& call) {
  const ir::Type result = call.result_type(0);
  ir::Value *a = expanded(call, call.cast(call.tensor("self"), result.dtype), result.shape),
            *b = expanded(call, call.cast(call.tensor("other"), result.dtype), result.shape);
  const int64_t dim = normalize_dim(call.has("dim") ? call.integer("dim") : -1, result.shape.size());
  ir::Value* forward = call.op("mul", {turned(call, a, dim, 1), turned(call, b, dim, 2)});
  ir::Value* backward = call.op("mul", {turned(call, a, dim, 2), turned(call, b, dim, 1)});
  call.set_result(0, call.op("sub", {forward, backward}));
}

void import_cdist(AtenImportCall& call) {
  const ir::Type result = call.result_type(0);
  ir::Value *a = call.cast(call.tensor("x1"), result.dtype), *b = call.cast(call.tensor("x2"), result.dtype);
  Shape left = a->type().shape, right = b->type().shape;
  left.insert(left.end() - 1, 1);
  right.insert(right.end() - 2, 1);
  ir::Value* difference = call.op("sub", {reshaped(call, a, left), reshaped(call, b, right)});
  const int64_t last = std::ssize(difference->type().shape) - 1;
  call.set_result(
      0, vector_norm(call.builder(), difference, call.has("p") ? call.real("p") : 2.0, {last}, false));
}

struct VectorImporters {
  VectorImporters() {
    register_aten_importer("linalg_cross", import_cross);
    register_aten_importer("cdist", import_cdist);
  }
};
const VectorImporters vector_importers;

}  // namespace
}  // namespace ipu::ops
