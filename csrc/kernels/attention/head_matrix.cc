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

template <class T>
bool copy_to_panels(const MatrixSource& head, const T* from, float* to, StopMeter& meter) {
  const int64_t width = panel_width(head.columns);
  for (int64_t column = 0; column < head.columns; column += width) {
    if (meter.stops(head.rows * width)) return false;
    pack_block(head, from, 0, head.rows, column, std::min(width, head.columns - column),
               to + column * head.rows, width);
  }
  return true;
}
template bool copy_to_panels(const MatrixSource&, const float*, float*, StopMeter&);
template bool copy_to_panels(const MatrixSource&, const Half*, float*, StopMeter&);

template <class T>
bool copy_to_rows(const MatrixSource& head, const T* from, float* to, int64_t pitch, StopMeter& meter) {
  constexpr int64_t kRows = 64;
  for (int64_t row = 0; row < head.rows; row += kRows) {
    const int64_t rows = std::min(kRows, head.rows - row);
    if (meter.stops(rows * pitch)) return false;
    pack_block(head, from, row, rows, 0, head.columns, to + row * pitch, pitch);
  }
  return true;
}
template bool copy_to_rows(const MatrixSource&, const float*, float*, int64_t, StopMeter&);
template bool copy_to_rows(const MatrixSource&, const Half*, float*, int64_t, StopMeter&);

int64_t panel_floats(const MatrixSource& head) {
  const int64_t floats = panel_count(head.columns) * panel_width(head.columns) * head.rows;
  return (floats + 15) / 16 * 16;  // whole lines of a cache
}

KeyWidths::KeyWidths(int64_t keys, bool causal) : keys_(keys), step_(keys), causal_(causal) {
  constexpr int64_t kMost = 8, kGrain = 64;  // a panel
  if (causal) step_ = ((keys + kMost - 1) / kMost + kGrain - 1) / kGrain * kGrain;
  step_ = std::max(step_, kGrain);
}

int64_t block_rows(int64_t scores, int64_t keys, int64_t rows) {
  constexpr int64_t kFewest = 16, kMost = 64;
  const int64_t most = std::clamp(scores / std::max<int64_t>(1, keys), kFewest, kMost);
  return std::max<int64_t>(1, std::min(most, rows));
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
