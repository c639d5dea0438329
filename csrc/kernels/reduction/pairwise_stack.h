// Adds partial results as a balanced binary tree in the order they arrive, keeping one per level: the
// rounding error of a long sum grows with the logarithm of its length.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/reduction/fold_ops.h"

namespace ipu::kernels {

// Levels needed for `parts` partial results.
constexpr int pairwise_levels(int64_t parts) {
  return std::bit_width(static_cast<uint64_t>(parts < 1 ? 1 : parts)) + 1;
}

class PairwiseStack {
 public:
  explicit PairwiseStack(const FoldOps& ops) : ops_(ops) {}
  void push(uint32_t value) {
    for (uint64_t carry = pushed_++; carry & 1; carry >>= 1) value = ops_.two(level_[--top_], value);
    level_[top_++] = value;
  }
  uint32_t finish() {  // 0 when nothing was pushed
    uint32_t value = top_ > 0 ? level_[--top_] : 0;
    while (top_ > 0) value = ops_.two(level_[--top_], value);
    pushed_ = 0;
    return value;
  }

 private:
  const FoldOps& ops_;
  uint64_t pushed_ = 0;
  int top_ = 0;
  uint32_t level_[64];
};

// The same for rows of `columns` registers; memory for pairwise_levels() rows is the caller's.
class PairwiseColumns {
 public:
  PairwiseColumns(const FoldOps& ops, uint32_t* memory, size_t columns)
      : ops_(ops), memory_(memory), columns_(columns) {}
  // Where the next partial result is to be written before push().
  uint32_t* next() { return memory_ + static_cast<size_t>(top_) * columns_; }
  void push() {
    ++top_;
    for (uint64_t carry = pushed_++; carry & 1; carry >>= 1) merge();
  }
  const uint32_t* finish() {
    while (top_ > 1) merge();
    return memory_;
  }

 private:
  void merge() {
    uint32_t* low = memory_ + static_cast<size_t>(top_ - 2) * columns_;
    const uint32_t* pair[2] = {low, low + columns_};
    ops_.columns(pair, 2, columns_, low);
    --top_;
  }
  const FoldOps& ops_;
  uint32_t* memory_;
  size_t columns_;
  uint64_t pushed_ = 0;
  int top_ = 0;
};

}  // namespace ipu::kernels
