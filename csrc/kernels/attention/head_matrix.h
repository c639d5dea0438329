// Operands of attention: a matrix for each head of a batch, and what broadcasts to the scores.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/tile_gemm/panels.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

// The matrix of the first head, and the strides from head to head.
struct HeadMatrix : MatrixSource {
  Strides batch;
};

// Of an operand [batch.., rows, columns]; `transposed`: read as its transpose. nullopt: another type, batch or
// layout, or neither rows nor columns are dense.
std::optional<HeadMatrix> head_matrix(const TensorSpec& spec, const Shape& batch, DType dtype,
                                      bool transposed = false);
// The same with dense rows.
std::optional<HeadMatrix> head_rows(const TensorSpec& spec, const Shape& batch, DType dtype);

// How an operand that broadcasts to the scores is walked.
struct ScoreSpread {
  Strides batch;
  int64_t row = 0;
};

// nullopt: another type, rows of it are not dense, or it does not broadcast to the scores.
std::optional<ScoreSpread> score_spread(const TensorSpec& spec, const Shape& scores, DType dtype);

// Where a head begins in an operand with these strides of the batch.
int64_t head_offset(const Shape& batch, const Strides& strides, int64_t head);

}  // namespace ipu::kernels
