// Slices of a tensor along one dimension, many at a time: [outer][size][inner] in memory. A panel is the
// slices of up to `width` neighbouring inner positions (one when inner is 1), as rows of f32: in place for
// f32, widened for f16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/reduction/pairwise_stack.h"

namespace ipu::kernels {

struct Slices {
  int64_t outer = 1, size = 1, inner = 1;
  int64_t width = 1;   // inner positions of a panel
  int64_t panels = 0;  // of the whole tensor
  int lanes = 1;

  int64_t elements() const { return outer * size * inner; }
  int64_t panels_per_outer() const { return (inner + width - 1) / width; }
};
// nullopt when the tensor's memory is not dense in this way. `dim` is logical.
std::optional<Slices> slices_of(const TensorSpec& spec, int64_t dim);

// Panel of f32 rows: row k starts at data + k * stride and has `columns` elements.
struct Panel {
  float* data = nullptr;
  int64_t stride = 1;
  int64_t rows = 0, columns = 1;
  bool is_row() const { return columns == 1 && stride == 1; }  // one slice, contiguous
};

// Kernels' view of the fold and block functions, and of panels in memory.
class SliceMath {
 public:
  SliceMath(const Slices& slices, DType dtype);

  // Bytes of scratch for `widened` f16 panels, statistics, the summation tree and temporary rows.
  int64_t scratch_bytes(int widened) const;
  // Panel `index` of a tensor at `base`; f16 is widened into place `slot` of scratch (not read when
  // `write_only`).
  Panel panel(std::byte* base, int64_t index, std::byte* scratch, int slot, bool write_only = false) const;
  void store(const Panel& panel, std::byte* base, int64_t index) const;  // narrows f16; nothing to do for f32
  int64_t first_column(int64_t index) const { return index % slices_.panels_per_outer() * slices_.width; }

  // Statistics: one f32 per column. `statistic(scratch, k)` is place k.
  static constexpr int kStatistics = 4;
  float* statistic(std::byte* scratch, int k) const {
    return reinterpret_cast<float*>(scratch) + k * padded_width_;
  }
  void maximum(const Panel& x, float* out) const;
  void sum(const Panel& x, std::byte* scratch, float* out) const;
  // Sum over f(row k) where `make` computes up to kFoldBlock elements of a row piece into a temporary.
  void sum_of_exp(const Panel& x, const float* shift, std::byte* scratch, float* out) const;
  void sum_of_products(const Panel& a, const Panel& b, std::byte* scratch, float* out) const;

  // out = function(a, b, c) row by row; a Panel moves with the rows, a statistic is the same for every row.
  struct Operand {
    const float* data = nullptr;
    int64_t stride = 0;                                              // between rows; 0: a statistic
    Operand(const Panel& p) : data(p.data), stride(p.stride) {}      // NOLINT: implicit on purpose
    Operand(const float* statistic) : data(statistic), stride(0) {}  // NOLINT
  };
  void apply(BlockFunction function, const Panel& out, Operand a, Operand b, Operand c,
             std::byte* scratch) const;
  void apply(BlockFunction function, const Panel& out, Operand a, Operand b, std::byte* scratch) const {
    apply(function, out, a, b, b, scratch);
  }

  const BlockOps& ops() const { return ops_; }
  BlockFunction widen() const { return widen_; }
  BlockFunction narrow() const { return narrow_; }
  const Slices& slices() const { return slices_; }

 private:
  template <class Make>
  void sum_blocks(int64_t rows, int64_t columns, bool is_row, std::byte* scratch, float* out,
                  Make make) const;

  Slices slices_;
  DType dtype_;
  const BlockOps& ops_;
  const FoldOps& add_;
  const FoldOps& max_;
  BlockFunction widen_, narrow_;
  int64_t bytes_, padded_width_, levels_;
};

}  // namespace ipu::kernels
