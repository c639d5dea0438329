// What a request asks of fused attention, checked: matrices of a head, batches, masks that broadcast. Not here: how it
// is computed (attention.cc).
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kernel_table.h"
#include "kernels/tile_gemm/panels.h"

namespace ipu::kernels {

// Operands by number.
struct AttentionOperand {
  static constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kMask = 3, kAddend = 4;
};

// How an operand that broadcasts to the scores is walked.
struct ScoreSpread {
  Strides batch;
  int64_t row = 0;
};

struct AttentionPlan {
  Shape batch;
  Strides query_batch, key_batch, value_batch, result_batch;
  MatrixSource query, key, value, result;  // of a head; the key transposed: [E, S]
  std::optional<MatrixSource> weights;     // a second result: the softmax
  Strides weights_batch;
  std::optional<ScoreSpread> mask, addend;
  float scale = 1.0f, blocked = 0.0f;
  bool causal = false, keeps = true, zero_blocked = false;

  int64_t heads() const { return element_count(batch); }
  int64_t rows() const { return query.rows; }
  int64_t keys() const { return key.columns; }
  bool has_end() const {
    return scale != 1.0f || mask || addend;
  }  // something is done to scores before the softmax
  // Where a head begins in an operand with these strides of the batch.
  int64_t offset_of(const Strides& strides, int64_t head) const;
};

// nullopt: the kernel cannot do this. Sizes must be bounded (require_sound).
std::optional<AttentionPlan> attention_plan(const KernelRequest& request);

}  // namespace ipu::kernels
