// See head_matrix.h.
#include "kernels/attention/head_matrix.h"

#include <algorithm>

#include "kernels/matmul/operand_matrix.h"

namespace ipu::kernels {

std::optional<HeadMatrix> head_matrix(const TensorSpec& spec, const Shape& batch, DType dtype,
                                      bool transposed) {
  if (spec.dtype != dtype || !spec.layout.is_plain() || spec.shape.size() != batch.size() + 2 ||
      !std::equal(batch.begin(), batch.end(), spec.shape.begin()))
    return std::nullopt;
  const std::optional<MatrixSource> matrix = matrix_of(spec, transposed);
  if (!matrix) return std::nullopt;
  return HeadMatrix{*matrix, Strides(spec.strides.begin(), spec.strides.end() - 2)};
}

std::optional<HeadMatrix> head_rows(const TensorSpec& spec, const Shape& batch, DType dtype) {
  std::optional<HeadMatrix> matrix = head_matrix(spec, batch, dtype);
  if (matrix && matrix->form != MatrixSource::Form::kRows) return std::nullopt;
  return matrix;
}

std::optional<ScoreSpread> score_spread(const TensorSpec& spec, const Shape& scores, DType dtype) {
  if (spec.dtype != dtype || !spec.layout.is_plain() || spec.shape.empty() ||
      spec.shape.size() > scores.size() || spec.shape.back() != scores.back() ||
      (spec.strides.back() != 1 && scores.back() > 1))
    return std::nullopt;
  const size_t lead = scores.size() - spec.shape.size();
  Strides all(scores.size(), 0);
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    if (spec.shape[d] != scores[lead + d] && spec.shape[d] != 1) return std::nullopt;
    if (spec.shape[d] != 1) all[lead + d] = spec.strides[d];
  }
  return ScoreSpread{Strides(all.begin(), all.end() - 2), all[all.size() - 2]};
}

int64_t head_offset(const Shape& batch, const Strides& strides, int64_t head) {
  int64_t offset = 0;
  for (size_t d = batch.size(); d-- > 0;) {
    offset += head % batch[d] * strides[d];
    head /= batch[d];
  }
  return offset;
}

}  // namespace ipu::kernels
