// Importers of TensorFlow's matrices of diagonals: the main one, whose elements stand rows + 1 apart.
#include <fmt/core.h>

#include <algorithm>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

// Versions 2 and 3 of a type name the diagonal by operand `i`.
void require_main_diagonal(NodeImportCall& call, int i) {
  for (const int64_t k : call.operand_integers(i, "k"))
    if (k != 0) call.unsupported("another diagonal than the main one (k = 0)");
  if (call.has("align")) call.text("align");  // of several diagonals
}

// Places of the diagonal in a matrix that is seen as one row.
ir::Value* places(NodeImportCall& call, int64_t count, int64_t columns) {
  std::vector<double> index;
  for (int64_t i = 0; i < count; ++i) index.push_back(static_cast<double>(i * (columns + 1)));
  return call.builder().constant(constant_of(DType::kI32, {count}, index));
}

struct Matrices {
  Shape batch;
  int64_t rows, columns;
  int64_t count() const { return element_count(batch); }
  int64_t diagonal() const { return std::min(rows, columns); }
};
Matrices read_matrices(NodeImportCall& call, const Shape& shape) {
  node_dim(call, -2, shape.size());
  return {Shape(shape.begin(), shape.end() - 2), shape[shape.size() - 2], shape.back()};
}

Shape joined(Shape shape, std::initializer_list<int64_t> more) {
  shape.insert(shape.end(), more);
  return shape;
}

ir::Value* matrix_of(NodeImportCall& call, ir::Value* diagonal, Shape batch, int64_t n) {
  ir::Value* zeros = call.builder().splat({diagonal->type().dtype, {element_count(batch), n * n}}, 0.0);
  ir::Value* rows = reshaped(call, diagonal, {element_count(batch), n});
  ir::Value* y = call.op("index_copy", {zeros, places(call, n, n), rows}, {{"dim", int64_t{1}}});
  return reshaped(call, y, joined(std::move(batch), {n, n}));
}

void import_matrix(NodeImportCall& call, bool has_shape) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const int64_t n = shape[node_dim(call, -1, shape.size())];
  if (has_shape) {
    require_main_diagonal(call, 1);
    for (const int i : {2, 3})
      if (const int64_t size = operand_integer(call, i, "num_rows and num_cols"); size != -1 && size != n)
        call.unsupported("a matrix that is larger than its diagonal");
    if (call.operand_real(4, "padding_value") != 0.0) call.unsupported("a padding_value other than 0");
  }
  call.set_result(0, matrix_of(call, x, Shape(shape.begin(), shape.end() - 1), n));
}

void import_part(NodeImportCall& call, bool has_k) {
  if (has_k) {
    require_main_diagonal(call, 1);
    call.operand_real(2, "padding_value");  // of diagonals that are shorter than others
  }
  ir::Value* x = call.operand(0);
  const Matrices m = read_matrices(call, x->type().shape);
  ir::Value* flat = reshaped(call, x, {m.count(), m.rows * m.columns});
  ir::Value* y =
      call.op("index_select", {flat, places(call, m.diagonal(), m.columns)}, {{"dim", int64_t{1}}});
  call.set_result(0, reshaped(call, y, joined(m.batch, {m.diagonal()})));
}

void import_set(NodeImportCall& call, bool has_k) {
  if (has_k) require_main_diagonal(call, 2);
  ir::Value* x = call.operand(0);
  const Shape shape = x->type().shape;
  const Matrices m = read_matrices(call, shape);
  ir::Value* flat = reshaped(call, x, {m.count(), m.rows * m.columns});
  ir::Value* given = call.operand(1);
  if (given->type().elements() != m.count() * m.diagonal())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} has the diagonal {}.", call.described(),
                            to_string(shape), to_string(given->type().shape)));
  ir::Value* rows = reshaped(call, given, {m.count(), m.diagonal()});
  ir::Value* y =
      call.op("index_copy", {flat, places(call, m.diagonal(), m.columns), rows}, {{"dim", int64_t{1}}});
  call.set_result(0, reshaped(call, y, shape));
}

// A tensor of shape s has its elements on the diagonal of one of shape [s, s].
void import_diagonal_tensor(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  Shape shape = x->type().shape;
  const int64_t n = element_count(shape);
  const Shape half = shape;
  shape.insert(shape.end(), half.begin(), half.end());
  call.set_result(0, reshaped(call, matrix_of(call, x, {}, n), shape));
}

void import_diagonal_of_tensor(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  const Shape& shape = x->type().shape;
  const Shape half(shape.begin(), shape.begin() + std::ssize(shape) / 2);
  if (shape.size() % 2 != 0 || !std::equal(half.begin(), half.end(), shape.begin() + std::ssize(half)))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {}, whose halves differ.",
                                                      call.described(), to_string(shape)));
  const int64_t n = element_count(half);
  ir::Value* y =
      call.op("index_select", {reshaped(call, x, {n * n}), places(call, n, n)}, {{"dim", int64_t{0}}});
  call.set_result(0, reshaped(call, y, half));
}

struct DiagonalImporters {
  DiagonalImporters() {
    register_tensorflow_importer("MatrixDiag", [](NodeImportCall& call) { import_matrix(call, false); });
    register_tensorflow_importer("MatrixDiagPart", [](NodeImportCall& call) { import_part(call, false); });
    register_tensorflow_importer("MatrixSetDiag", [](NodeImportCall& call) { import_set(call, false); });
    for (const char* version : {"V2", "V3"}) {
      const auto type = [&](const char* name) { return std::string(name) + version; };
      register_tensorflow_importer(type("MatrixDiag"),
                                   [](NodeImportCall& call) { import_matrix(call, true); });
      register_tensorflow_importer(type("MatrixDiagPart"),
                                   [](NodeImportCall& call) { import_part(call, true); });
      register_tensorflow_importer(type("MatrixSetDiag"),
                                   [](NodeImportCall& call) { import_set(call, true); });
    }
    register_tensorflow_importer("Diag", import_diagonal_tensor);
    register_tensorflow_importer("DiagPart", import_diagonal_of_tensor);
  }
};
const DiagonalImporters diagonal_importers;

}  // namespace
}  // namespace ipu::ops
