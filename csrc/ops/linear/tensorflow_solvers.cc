// Importers of TensorFlow's decompositions and solvers of matrices [..., N, N]: loops over the N columns, each round a product of a
// column and a row. What has no result ends the run, as in TensorFlow.
#include <fmt/core.h>

#include <limits>

#include "ops/control/body_calls.h"
#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

constexpr int64_t kRow = 1, kColumn = 2;

// Matrices in one batch dimension.
struct Matrices {
  ir::Value* x;  // [B, rows, columns], f32
  Shape batch;
  int64_t rows, columns;
};

Matrices read_matrices(NodeImportCall& call, ir::Value* x) {
  const Shape shape = x->type().shape;
  node_dim(call, -2, shape.size());
  const Shape batch(shape.begin(), shape.end() - 2);
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  return {reshaped(call, call.cast(x, DType::kF32), {element_count(batch), rows, columns}), batch, rows,
          columns};
}

Matrices read_square(NodeImportCall& call, ir::Value* x) {
  const Shape shape = x->type().shape;
  const Matrices m = read_matrices(call, x);
  if (m.x->type().elements() == 0) call.unsupported("a matrix without elements");
  if (m.rows != m.columns)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {}; the last two dimensions are equal.", call.described(),
                            to_string(shape)));
  return m;
}

Matrices read_right_side(NodeImportCall& call, const Matrices& m, ir::Value* b) {
  const Matrices right = read_matrices(call, b);
  if (right.batch != m.batch || right.rows != m.rows)
    call.unsupported(
        fmt::format("a right side {} of other batches or rows than the matrix", to_string(b->type().shape)));
  return right;
}

void set_matrices(NodeImportCall& call, ir::Value* y, Shape batch) {
  const Shape& shape = y->type().shape;
  batch.insert(batch.end(), {shape[kRow], shape[kColumn]});
  call.set_result(0, reshaped(call, call.cast(y, call.operand(0)->type().dtype), batch));
}

// Numbers of rows or columns, to compare with.
Term numbers(NodeImportCall& call, int64_t dim, int64_t count) {
  Shape shape(3, 1);
  shape[dim] = count;
  return {call, call.op("iota", {}, {{"shape", shape}, {"dim", dim}, {"dtype", DType::kI32}})};
}

// The row or column of a number that the loop counts.
ir::Value* line(NodeImportCall& call, ir::Value* x, ir::Value* index, int64_t dim) {
  return call.op("index_select", {x, reshaped(call, index, {1})}, {{"dim", dim}});
}
ir::Value* with_line(NodeImportCall& call, ir::Value* x, ir::Value* index, ir::Value* line, int64_t dim) {
  return call.op("index_copy", {x, reshaped(call, index, {1}), line}, {{"dim", dim}});
}
ir::Value* product(NodeImportCall& call, ir::Value* a, ir::Value* b, bool turns_b = false) {
  return call.op("matmul", {a, b}, {{"trans_b", turns_b}});
}

void require(NodeImportCall& call, const Term& holds, const char* message) {
  ir::Value* condition = reshaped(call, holds.value(), {holds.value()->type().elements()});
  condition = call.op("reduce_all", {condition}, {{"dims", Shape{0}}, {"keep_dims", false}});
  call.op("assertion", {condition}, {{"message", std::string(message)}});
}

// Column after column, each subtracted from what is left of the matrix. Only the lower half of it is read.
void import_cholesky(NodeImportCall& call) {
  const Matrices m = read_square(call, call.operand(0));
  const int64_t n = m.rows;
  ir::Value* zeros = call.builder().splat(m.x->type(), 0.0);
  ir::Value* pivots = call.builder().splat({DType::kF32, {m.x->type().shape[0], n, 1}}, 0.0);
  const GraphValues found =
      repeated(call, "cholesky", n, {m.x, zeros, pivots}, {},
               [&](ir::Value* index, const GraphValues& v, const GraphValues&) {
                 const Term column{call, line(call, v[0], index, kColumn)};
                 const Term pivot{call, line(call, column.value(), index, kRow)};
                 const Term stays = numbers(call, kRow, n) < Term(call, index);
                 const Term root = sqrt(pivot);
                 ir::Value* next = stays.choose(0.0, column / root).value();
                 ir::Value* rest = call.op("sub", {v[0], product(call, next, next, true)});
                 return GraphValues{rest, with_line(call, v[1], index, next, kColumn),
                                    with_line(call, v[2], index, pivot.value(), kRow)};
               });
  require(
      call, Term(call, found[2]) > 0.0,
      "Cholesky decomposition was not successful. The input might not be valid: it is not positive definite.");
  set_matrices(call, found[1], m.batch);
}

// Rows of X one after the other, those that are not there yet being zero.
void import_triangular_solve(NodeImportCall& call) {
  const bool is_adjoint = flag(call, "adjoint");
  const bool is_lower = call.has("lower") ? call.boolean("lower") : true;
  const Matrices m = read_square(call, call.operand(0));
  const Matrices b = read_right_side(call, m, call.operand(1));
  const int64_t n = m.rows;
  const bool goes_down = is_lower != is_adjoint;
  const Term row = numbers(call, kRow, n), column = numbers(call, kColumn, n);
  const Term is_other = is_lower ? row < column : column < row;
  ir::Value* a = is_other.choose(0.0, Term(call, m.x)).value();
  if (is_adjoint) a = transposed(call, a, {0, 2, 1});
  const GraphValues solved =
      repeated(call, "triangular_solve", n, {call.builder().splat(b.x->type(), 0.0)}, {a, b.x},
               [&](ir::Value* index, const GraphValues& v, const GraphValues& stays) {
                 if (!goes_down) index = (Term(static_cast<double>(n - 1)) - Term(call, index)).value();
                 ir::Value* coefficients = line(call, stays[0], index, kRow);
                 const Term known{call, product(call, coefficients, v[0])};
                 const Term x = (Term(call, line(call, stays[1], index, kRow)) - known) /
                                Term(call, line(call, coefficients, index, kColumn));
                 return GraphValues{with_line(call, v[0], index, x.value(), kRow)};
               });
  set_matrices(call, solved[0], m.batch);
}

// [A B] with the columns of A one after the other made those of the identity, the largest element left of each as the pivot.
ir::Value* eliminated(NodeImportCall& call, ir::Value* a, ir::Value* b, const char* message) {
  const Shape shape = a->type().shape;
  const int64_t n = shape[kRow], width = n + b->type().shape[kColumn];
  ir::Value* both = concatenated(call, {a, b}, kColumn);
  ir::Value* pivots = call.builder().splat({DType::kF32, {shape[0], n, 1}}, 0.0);
  const GraphValues found = repeated(
      call, "eliminate", n, {both, pivots}, {},
      [&](ir::Value* index, const GraphValues& v, const GraphValues&) {
        const Term number{call, index}, row = numbers(call, kRow, n);
        const Term size = (row < number).choose(-1.0, absolute(Term(call, line(call, v[0], index, kColumn))));
        const Term largest{call,
                           reshaped(call, size.op("argmax", {{"dim", kRow}}).value(), {shape[0], 1, 1})};
        // The rows with the pivot and of the round change places.
        const Term order = (row == number).choose(largest, (row == largest).choose(number, row));
        const Shape all{shape[0], n, width};
        const Term swapped{call,
                           call.op("gather", {v[0], expanded(call, order.value(), all)}, {{"dim", kRow}})};
        const Term column{call, line(call, swapped.value(), index, kColumn)};
        const Term pivot{call, line(call, column.value(), index, kRow)};
        const Term scaled = Term(call, line(call, swapped.value(), index, kRow)) / pivot;
        const Term next = (row == number).choose(scaled, swapped - column * scaled);
        return GraphValues{next.value(), with_line(call, v[1], index, pivot.value(), kRow)};
      });
  require(call, absolute(Term(call, found[1])) > 0.0, message);
  return sliced(call, found[0], kColumn, n, width - n);
}

void import_inverse(NodeImportCall& call) {
  const bool is_adjoint = flag(call, "adjoint");
  const Matrices m = read_square(call, call.operand(0));
  const Term is_diagonal = numbers(call, kRow, m.rows) == numbers(call, kColumn, m.rows);
  ir::Value* identity = expanded(call, is_diagonal.cast(DType::kF32).value(), m.x->type().shape);
  ir::Value* a = is_adjoint ? transposed(call, m.x, {0, 2, 1}) : m.x;
  set_matrices(call, eliminated(call, a, identity, "Input is not invertible."), m.batch);
}

void import_solve(NodeImportCall& call) {
  const bool is_adjoint = flag(call, "adjoint");
  const Matrices m = read_square(call, call.operand(0));
  const Matrices b = read_right_side(call, m, call.operand(1));
  ir::Value* a = is_adjoint ? transposed(call, m.x, {0, 2, 1}) : m.x;
  set_matrices(call, eliminated(call, a, b.x, "Input matrix is not invertible."), m.batch);
}

struct SolverImporters {
  SolverImporters() {
    register_tensorflow_importer("Cholesky", import_cholesky);
    register_tensorflow_importer("MatrixTriangularSolve", import_triangular_solve);
    register_tensorflow_importer("MatrixInverse", import_inverse);
    register_tensorflow_importer("MatrixSolve", import_solve);
  }
};
const SolverImporters solver_importers;

}  // namespace
}  // namespace ipu::ops
