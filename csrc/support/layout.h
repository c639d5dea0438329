// How the elements of a tensor lie in memory, as a description: the order of its dimensions from the outermost to the
// innermost, and at most one dimension that is cut into blocks, whose inside comes last. The shape stays logical in
// every layout; a block that is not full is padded with zeros. Strides, bytes and conversions follow from it.
//
// As text: a letter for each dimension in that order, capital when it is cut, and then the block.
//   acdb      [N,C,H,W] with the channels last
//   Ab64a     [N,K] as panels of 64 rows of N: [N/64][K][64]
//   Ba16b     the same of its transpose [K,N], in panels of 16
//   plain     row major, whatever the number of dimensions
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/dtype.h"
#include "support/shape.h"

namespace ipu {

class Layout {
 public:
  static constexpr int kMaxRank = 8;

  constexpr Layout() = default;  // plain
  static const Layout kPlain;
  // `order` is a permutation of 0 ... rank - 1; `block` 0: nothing is cut.
  Layout(std::span<const int> order, int cut = 0, int64_t block = 0);

  // [N,C,...]: channels innermost. Three to eight dimensions.
  static Layout channels_last(size_t rank);
  // What kernels of products and convolutions read. Of a matrix [K,N]: panels over its columns. Of a weight
  // [N,K] or [N,C,taps...]: the same memory, panels over its first dimension, the channels innermost in them.
  static Layout panels_of_matrix(int64_t columns);
  static Layout panels_of_weight(const Shape& shape);
  static int64_t panel_width(int64_t columns) { return columns < 64 ? 16 : 64; }

  bool operator==(const Layout&) const = default;
  bool is_plain() const { return rank_ == 0; }
  bool is_channels_last() const;
  bool is_blocked() const { return block_ > 0; }
  int rank() const { return rank_; }  // 0: plain, any
  int dimension(int position) const { return order_[static_cast<size_t>(position)]; }
  int cut() const { return cut_; }
  int64_t block() const { return block_; }

  // Dimensions from the outermost to the innermost, for a tensor of `rank` dimensions.
  std::vector<int> order(size_t rank) const;
  // As `shape`, with the dimension that is cut rounded up to whole blocks.
  Shape padded(Shape shape) const;
  // In elements, of a layout without blocks.
  Strides strides(const Shape& shape) const;
  // Does it describe a tensor of this shape?
  bool fits(const Shape& shape) const { return is_plain() || shape.size() == static_cast<size_t>(rank_); }
  // Is there a kernel that reads a tensor of this shape so? `shape` is that of a buffer in a program.
  bool is_supported(const Shape& shape) const;

 private:
  int8_t rank_ = 0, cut_ = 0;
  int16_t block_ = 0;
  std::array<int8_t, kMaxRank> order_{};
};
inline constexpr Layout Layout::kPlain{};

std::string to_string(const Layout& layout);
std::optional<Layout> layout_from_string(std::string_view text);  // nullopt: not a layout
// Bytes a buffer of this layout occupies, padding included.
int64_t stored_bytes(DType dtype, const Shape& shape, const Layout& layout);

}  // namespace ipu
