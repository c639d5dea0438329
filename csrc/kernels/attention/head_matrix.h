// Operands of attention: a matrix for each head of a batch, its copy in scratch, what broadcasts to the scores, and
// how many keys blocks of rows see.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/stop_meter.h"
#include "kernels/tile_gemm/panels.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

// The matrix of the first head, and the strides from head to head.
struct HeadMatrix : MatrixSource {
  Strides batch;
};

// Describes the heads of an operand [batch.., rows, columns], or of its transpose (`transposed`). Returns nullopt for
// another type, batch or layout, or if neither rows nor columns are dense.
std::optional<HeadMatrix> head_matrix(const TensorSpec& spec, const Shape& batch, DType dtype,
                                      bool transposed = false);
// The same with dense rows.
std::optional<HeadMatrix> head_rows(const TensorSpec& spec, const Shape& batch, DType dtype);

// Copies of a head that begins at `from`, in panels or in dense rows `pitch` apart, padded with zeros. False: it
// was stopped.
template <class T>
bool copy_to_panels(const MatrixSource& head, const T* from, float* to, StopMeter& meter);
template <class T>
bool copy_to_rows(const MatrixSource& head, const T* from, float* to, int64_t pitch, StopMeter& meter);
int64_t panel_floats(const MatrixSource& head);

// How many keys a block of rows works on: all of them, or, where row i sees the keys up to i alone, those its last row
// sees, rounded up to one of at most eight widths for which products are prepared.
class KeyWidths {
 public:
  KeyWidths(int64_t keys, bool causal);
  size_t count() const { return keys_ == 0 ? 1 : index(keys_) + 1; }
  int64_t keys(size_t width) const { return std::min(keys_, (static_cast<int64_t>(width) + 1) * step_); }
  // Returns the width number of a block that ends before row `end`.
  size_t of_block(int64_t end) const { return index(causal_ ? std::min(end, keys_) : keys_); }
  // Returns how many of the first `keys` keys `row` sees.
  int64_t seen(int64_t row, int64_t keys) const { return causal_ ? std::min(keys, row + 1) : keys; }

 private:
  size_t index(int64_t seen) const { return seen == 0 ? 0 : static_cast<size_t>((seen - 1) / step_); }
  int64_t keys_, step_;
  bool causal_;
};

// Rows of a block whose scores, so many floats in all, stay in the second cache; a row has `keys` of them.
int64_t block_rows(int64_t scores, int64_t keys, int64_t rows);

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
