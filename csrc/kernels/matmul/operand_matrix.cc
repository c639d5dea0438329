// See operand_matrix.h. A dimension of extent 1 has no say in what is dense.
#include "kernels/matmul/operand_matrix.h"

#include <utility>

namespace ipu::kernels {

std::optional<MatrixSource> matrix_of(const TensorSpec& spec, bool transpose) {
  const size_t rank = spec.shape.size();
  if (rank < 2) return std::nullopt;
  MatrixSource m;
  m.rows = spec.shape[rank - 2];
  m.columns = spec.shape[rank - 1];
  if (spec.layout.is_blocked()) {
    if (rank != 2) return std::nullopt;
    m.form = transpose ? MatrixSource::Form::kTransposedPanels : MatrixSource::Form::kPanels;
    if (transpose) std::swap(m.rows, m.columns);
    return m;
  }
  if (!spec.layout.is_plain()) return std::nullopt;
  int64_t row_stride = spec.strides[rank - 2], column_stride = spec.strides[rank - 1];
  if (transpose) {
    std::swap(m.rows, m.columns);
    std::swap(row_stride, column_stride);
  }
  if (column_stride == 1 || m.columns <= 1) {
    m.form = MatrixSource::Form::kRows;
    m.stride = row_stride;
  } else if (row_stride == 1 || m.rows <= 1) {
    m.form = MatrixSource::Form::kTransposed;
    m.stride = column_stride;
  } else {
    return std::nullopt;
  }
  return m;
}

std::optional<MatrixSource> rows_of(const TensorSpec& spec) {
  if (!spec.layout.is_plain() || spec.shape.empty()) return std::nullopt;
  const size_t last = spec.shape.size() - 1;
  MatrixSource m;
  m.columns = spec.shape[last];
  if (m.columns > 1 && spec.strides[last] != 1) return std::nullopt;
  m.rows = 1;
  m.stride = m.columns;
  bool found = false;
  for (size_t i = last; i-- > 0;) {
    if (spec.shape[i] == 1) continue;
    if (!found)
      m.stride = spec.strides[i];
    else if (spec.strides[i] != m.stride * m.rows)
      return std::nullopt;
    found = true;
    m.rows *= spec.shape[i];
    if (m.rows == 0) break;
  }
  return m;
}

}  // namespace ipu::kernels
