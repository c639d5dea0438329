// Panels, statistics and row-wise application. Sums run in blocks of fixed size added as a tree, so their
// order depends on the slice length alone.
#include "kernels/softmax/slices.h"

#include <cmath>
#include <cstring>

#include "kernels/pointwise/iteration.h"

namespace ipu::kernels {

std::optional<Slices> slices_of(const TensorSpec& spec, int64_t dim) {
  const size_t rank = spec.shape.size();
  if (spec.layout.is_blocked() || (spec.layout.is_plain() && !spec.is_contiguous())) return std::nullopt;
  if (rank == 0) return Slices{.panels = 1};
  if (dim < 0 || dim >= static_cast<int64_t>(rank)) return std::nullopt;
  Slices out;
  bool before = true;
  for (int d : spec.layout.order(rank)) {
    if (d == dim) {
      out.size = spec.shape[d];
      before = false;
    } else {
      (before ? out.outer : out.inner) *= spec.shape[d];
    }
  }
  // A panel of about 16 K elements; whole cache lines of columns.
  if (out.inner > 1)
    out.width = std::clamp<int64_t>(16384 / std::max<int64_t>(out.size, 1) / 16 * 16, 16, 512);
  out.width = std::min(out.width, std::max<int64_t>(out.inner, 1));
  out.panels = out.elements() == 0 ? 0 : out.outer * out.panels_per_outer();
  out.lanes = static_cast<int>(
      std::clamp<int64_t>(lanes_for_elements(4 * out.elements()), 1, std::max<int64_t>(out.panels, 1)));
  return out;
}

SliceMath::SliceMath(const Slices& slices, DType dtype)
    : slices_(slices),
      dtype_(dtype),
      ops_(block_ops()),
      add_(fold_ops(FoldKind::kSumF)),
      max_(fold_ops(FoldKind::kMaxF)),
      widen_(ops_.widen[static_cast<size_t>(dtype)]),
      narrow_(ops_.narrow[static_cast<size_t>(dtype)]),
      bytes_(size_in_bytes(dtype)),
      padded_width_(std::max<int64_t>((slices.width + 15) / 16 * 16, 16)),
      levels_(pairwise_levels(slices.size / static_cast<int64_t>(kFoldRows) + 1) + 1) {}

// Scratch: statistics, the tree's levels, kFoldRows temporary rows (at least one block), widened panels.
int64_t SliceMath::scratch_bytes(int widened) const {
  const int64_t temporary = std::max<int64_t>(static_cast<int64_t>(kFoldRows) * padded_width_, kFoldBlock);
  const int64_t panels =
      dtype_ == DType::kF32 ? 0 : widened * ((slices_.size * slices_.width + 15) / 16 * 16);
  return (kStatistics * padded_width_ + levels_ * padded_width_ + temporary + panels) * 4;
}

Panel SliceMath::panel(std::byte* base, int64_t index, std::byte* scratch, int slot, bool write_only) const {
  const int64_t per_outer = slices_.panels_per_outer(), column = first_column(index);
  const int64_t columns = std::min(slices_.width, slices_.inner - column);
  std::byte* at = base + (index / per_outer * slices_.size * slices_.inner + column) * bytes_;
  if (dtype_ == DType::kF32) return {reinterpret_cast<float*>(at), slices_.inner, slices_.size, columns};
  const int64_t temporary = std::max<int64_t>(static_cast<int64_t>(kFoldRows) * padded_width_, kFoldBlock);
  float* data = reinterpret_cast<float*>(scratch) + kStatistics * padded_width_ + levels_ * padded_width_ +
                temporary + slot * ((slices_.size * slices_.width + 15) / 16 * 16);
  Panel panel{data, columns, slices_.size, columns};
  if (write_only) return panel;
  BlockCall call;
  const bool whole = slices_.inner == columns;
  call.count = static_cast<size_t>(whole ? columns * slices_.size : columns);
  for (int64_t r = 0; r < (whole ? 1 : slices_.size); ++r) {
    call.a = at + r * slices_.inner * bytes_;
    call.result = data + r * columns;
    widen_(call);
  }
  return panel;
}

void SliceMath::store(const Panel& panel, std::byte* base, int64_t index) const {
  if (dtype_ == DType::kF32) return;
  std::byte* at =
      base +
      (index / slices_.panels_per_outer() * slices_.size * slices_.inner + first_column(index)) * bytes_;
  const bool whole = slices_.inner == panel.columns;
  BlockCall call;
  call.count = static_cast<size_t>(whole ? panel.columns * panel.rows : panel.columns);
  for (int64_t r = 0; r < (whole ? 1 : panel.rows); ++r) {
    call.a = panel.data + r * panel.stride;
    call.result = at + r * slices_.inner * bytes_;
    narrow_(call);
  }
}

void SliceMath::maximum(const Panel& x, float* out) const {
  if (x.is_row()) {
    const uint32_t bits = max_.row(reinterpret_cast<const uint32_t*>(x.data), static_cast<size_t>(x.rows));
    std::memcpy(out, &bits, 4);
    return;
  }
  const uint32_t* rows[kFoldRows];
  auto* result = reinterpret_cast<uint32_t*>(out);
  for (int64_t r = 0; r < x.rows;) {
    size_t n = 0;
    if (r > 0) rows[n++] = result;
    while (n < kFoldRows && r < x.rows)
      rows[n++] = reinterpret_cast<const uint32_t*>(x.data + r++ * x.stride);
    max_.columns(rows, n, static_cast<size_t>(x.columns), result);
  }
}

// make(first, n, to) gives the pointer to n elements (one row piece) or n rows from `first` on, using `to` as
// memory.
template <class Make>
void SliceMath::sum_blocks(int64_t rows, int64_t columns, bool is_row, std::byte* scratch, float* out,
                           Make make) const {
  auto* tree_memory = reinterpret_cast<uint32_t*>(statistic(scratch, kStatistics));
  float* temporary = reinterpret_cast<float*>(tree_memory) + levels_ * padded_width_;
  if (is_row) {
    PairwiseStack tree(add_);
    for (int64_t i = 0; i < rows; i += kFoldBlock) {
      const int64_t n = std::min<int64_t>(kFoldBlock, rows - i);
      tree.push(add_.row(reinterpret_cast<const uint32_t*>(make(i, n, temporary)), static_cast<size_t>(n)));
    }
    const uint32_t bits = tree.finish();
    std::memcpy(out, &bits, 4);
    return;
  }
  PairwiseColumns tree(add_, tree_memory, static_cast<size_t>(columns));
  const uint32_t* list[kFoldRows];
  for (int64_t r = 0; r < rows; r += kFoldRows) {
    const int64_t n = std::min<int64_t>(kFoldRows, rows - r);
    for (int64_t k = 0; k < n; ++k)
      list[k] = reinterpret_cast<const uint32_t*>(make(r + k, columns, temporary + k * padded_width_));
    add_.columns(list, static_cast<size_t>(n), static_cast<size_t>(columns), tree.next());
    tree.push();
  }
  std::memcpy(out, tree.finish(), static_cast<size_t>(columns) * 4);
}

void SliceMath::sum(const Panel& x, std::byte* scratch, float* out) const {
  sum_blocks(x.rows, x.columns, x.is_row(), scratch, out,
             [&](int64_t first, int64_t, float*) -> const float* { return x.data + first * x.stride; });
}

void SliceMath::sum_of_exp(const Panel& x, const float* shift, std::byte* scratch, float* out) const {
  float splat[kSplatBytes / 4];
  std::fill(std::begin(splat), std::end(splat), *shift);
  const bool row = x.is_row();
  sum_blocks(x.rows, x.columns, row, scratch, out, [&](int64_t first, int64_t n, float* to) -> const float* {
    ops_.exp_difference({.count = static_cast<size_t>(n),
                         .result = to,
                         .a = x.data + first * x.stride,
                         .b = row ? splat : shift,
                         .stride_b = row ? 0u : 1u});
    return to;
  });
}

void SliceMath::sum_of_products(const Panel& a, const Panel& b, std::byte* scratch, float* out) const {
  sum_blocks(a.rows, a.columns, a.is_row(), scratch, out,
             [&](int64_t first, int64_t n, float* to) -> const float* {
               ops_.compute[static_cast<size_t>(OpCode::kMulF)]({.count = static_cast<size_t>(n),
                                                                 .result = to,
                                                                 .a = a.data + first * a.stride,
                                                                 .b = b.data + first * b.stride});
               return to;
             });
}

void SliceMath::apply(BlockFunction function, const Panel& out, Operand a, Operand b, Operand c,
                      std::byte*) const {
  if (out.is_row()) {  // the slice is one run; statistics are splats
    float splats[3][kSplatBytes / 4];
    BlockCall call{.count = static_cast<size_t>(out.rows), .result = out.data};
    auto bind = [&](Operand x, float* splat, const void*& at, size_t& stride) {
      if (x.stride == 0) std::fill_n(splat, kSplatBytes / 4, *x.data);
      at = x.stride == 0 ? splat : x.data;
      stride = x.stride == 0 ? 0 : 1;
    };
    bind(a, splats[0], call.a, call.stride_a);
    bind(b, splats[1], call.b, call.stride_b);
    bind(c, splats[2], call.c, call.stride_c);
    function(call);
    return;
  }
  for (int64_t r = 0; r < out.rows; ++r)
    function({.count = static_cast<size_t>(out.columns),
              .result = out.data + r * out.stride,
              .a = a.data + r * a.stride,
              .b = b.data + r * b.stride,
              .c = c.data + r * c.stride});
}

}  // namespace ipu::kernels
