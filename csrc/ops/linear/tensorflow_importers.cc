// Importers of TensorFlow's matrix products and of what is added to their columns.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/tensorflow_nodes.h"
#include "ops/linear/matrix_product.h"

namespace ipu::ops {
namespace {

void import_matmul(NodeImportCall& call) {
  for (const char* name : {"grad_a", "grad_b"}) call.ignore(name);  // says that operands are gradients (2.16)
  call.set_result(0,
                  call.op("matmul", {call.operand(0), call.operand(1)},
                          {{"trans_a", flag(call, "transpose_a")}, {"trans_b", flag(call, "transpose_b")}}));
}

ir::Value* last_two_swapped(NodeImportCall& call, ir::Value* x) {
  std::vector<int64_t> perm(x->type().shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::iter_swap(perm.end() - 1, perm.end() - 2);
  return transposed(call, x, perm);
}

// Batch dimensions broadcast.
void import_batch_matmul(NodeImportCall& call) {
  for (const char* name : {"grad_x", "grad_y", "Ta", "Tb"}) call.ignore(name);
  ir::Value *a = call.operand(0), *b = call.operand(1);
  const bool swaps_a = flag(call, "adj_x"), swaps_b = flag(call, "adj_y");
  const Shape &left = a->type().shape, &right = b->type().shape;
  if (left.size() < 2 || right.size() < 2)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} and {}; both are matrices.",
                                                      call.described(), to_string(left), to_string(right)));
  const bool has_equal_batch =
      left.size() == right.size() && std::equal(left.begin(), left.end() - 2, right.begin());
  if (has_equal_batch)
    return call.set_result(0, call.op("matmul", {a, b}, {{"trans_a", swaps_a}, {"trans_b", swaps_b}}));
  if (swaps_a) a = last_two_swapped(call, a);
  if (swaps_b) b = last_two_swapped(call, b);
  call.set_result(0, matrix_product(call, call.described(), a, b));
}

Shape column_of(const Shape& x, bool is_last) {
  Shape shape(x.size(), 1);
  shape[is_last ? x.size() - 1 : 1] = x[is_last ? x.size() - 1 : 1];
  return shape;
}

void import_bias_add(NodeImportCall& call) {
  ir::Value *x = call.operand(0), *bias = call.operand(1);
  const bool is_last = is_channels_last(call);
  node_dim(call, is_last ? 0 : 1, x->type().shape.size());
  if (!is_last) bias = reshaped(call, bias, column_of(x->type().shape, false));
  call.set_result(0, call.op("add", {x, bias}));
}

void import_bias_add_gradient(NodeImportCall& call) {
  ir::Value* dy = call.operand(0);
  const auto rank = std::ssize(dy->type().shape);
  const int64_t channels = is_channels_last(call) ? rank - 1 : 1;
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d)
    if (d != channels) dims.push_back(d);
  call.set_result(0, call.op("reduce_sum", {dy}, {{"dims", dims}, {"keep_dims", false}}));
}

struct LinearTensorflowImporters {
  LinearTensorflowImporters() {
    register_tensorflow_importer("MatMul", import_matmul);
    for (const char* type : {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"})
      register_tensorflow_importer(type, import_batch_matmul);
    register_tensorflow_importer("BiasAdd", import_bias_add);
    register_tensorflow_importer("BiasAddGrad", import_bias_add_gradient);
  }
};
const LinearTensorflowImporters linear_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
