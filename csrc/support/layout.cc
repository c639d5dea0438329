#include "support/layout.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "support/error.h"

namespace ipu {
namespace {

constexpr std::string_view kPlainText = "plain";
constexpr int64_t kMaxBlock = 4096;

}  // namespace

Layout::Layout(std::span<const int> order, int cut, int64_t block)
    : rank_(static_cast<int8_t>(order.size())),
      cut_(static_cast<int8_t>(block > 0 ? cut : 0)),
      block_(static_cast<int16_t>(block)) {
  IPU_CHECK(!order.empty() && order.size() <= kMaxRank, "a layout is of one to eight dimensions");
  IPU_CHECK(block >= 0 && block <= kMaxBlock, "a block of a layout is out of range");
  std::array<bool, kMaxRank> seen{};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto dimension = static_cast<size_t>(order[i]);
    IPU_CHECK(dimension < order.size() && !seen[dimension], "a layout orders each dimension once");
    seen[dimension] = true;
    order_[i] = static_cast<int8_t>(order[i]);
  }
  IPU_CHECK(cut >= 0 && static_cast<size_t>(cut) < order.size(), "a layout cuts one of its dimensions");
  if (block == 0 && std::is_sorted(order.begin(), order.end())) *this = {};  // one description for row major
}

Layout Layout::channels_last(size_t rank) {
  IPU_CHECK(rank > 2, "channels last needs three or more dimensions");
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return Layout(order);
}

Layout Layout::panels_of_matrix(int64_t columns) {
  constexpr int kOrder[] = {1, 0};
  return Layout(kOrder, 1, panel_width(columns));
}

Layout Layout::panels_of_weight(const Shape& shape) {
  IPU_CHECK(shape.size() > 1, "panels need a matrix, not " + to_string(shape));
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return Layout(order, 0, panel_width(shape[0]));
}

bool Layout::is_channels_last() const {
  if (rank_ <= 2 || block_ > 0 || order_[0] != 0 || order_[static_cast<size_t>(rank_) - 1] != 1) return false;
  for (int i = 1; i + 1 < rank_; ++i)
    if (order_[static_cast<size_t>(i)] != i + 1) return false;
  return true;
}

std::vector<int> Layout::order(size_t rank) const {
  std::vector<int> order(rank);
  if (is_plain())
    std::iota(order.begin(), order.end(), 0);
  else
    std::copy_n(order_.begin(), rank, order.begin());
  return order;
}

Shape Layout::padded(Shape shape) const {
  if (block_ == 0) return shape;
  int64_t& extent = shape[static_cast<size_t>(cut_)];
  extent = (extent + block_ - 1) / block_ * block_;
  return shape;
}

Strides Layout::strides(const Shape& shape) const {
  IPU_CHECK(!is_blocked(), "a layout with blocks has no strides");
  if (is_plain()) return contiguous_strides(shape);
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order_[i]);
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

bool Layout::is_supported(const Shape& shape) const {
  if (is_plain()) return true;
  if (!fits(shape)) return false;
  if (is_blocked()) return rank_ == 2 && *this == panels_of_matrix(shape[1]);
  return is_channels_last() && rank_ <= 4;
}

std::string to_string(const Layout& layout) {
  if (layout.is_plain()) return std::string(kPlainText);
  std::string text;
  for (int i = 0; i < layout.rank(); ++i) {
    const int dimension = layout.dimension(i);
    const bool is_cut = layout.is_blocked() && dimension == layout.cut();
    text += static_cast<char>((is_cut ? 'A' : 'a') + dimension);
  }
  if (layout.is_blocked()) text += std::to_string(layout.block()) + static_cast<char>('a' + layout.cut());
  return text;
}

std::optional<Layout> layout_from_string(std::string_view text) {
  if (text == kPlainText) return Layout::kPlain;
  std::vector<int> order;
  int cut = -1;
  size_t at = 0;
  for (; at < text.size() && (text[at] < '0' || text[at] > '9'); ++at) {
    const char c = text[at];
    const bool is_cut = c >= 'A' && c <= 'Z';
    if (!is_cut && !(c >= 'a' && c <= 'z')) return std::nullopt;
    order.push_back(c - (is_cut ? 'A' : 'a'));
    if (is_cut && cut >= 0) return std::nullopt;
    if (is_cut) cut = order.back();
  }
  if (order.empty() || order.size() > Layout::kMaxRank) return std::nullopt;
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int>(i)) return std::nullopt;
  int64_t block = 0;
  if (at < text.size()) {
    const char* end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data() + at, end, block);
    if (error != std::errc() || block < 1 || block > kMaxBlock || cut < 0) return std::nullopt;
    if (rest + 1 != end || *rest != 'a' + cut) return std::nullopt;
  } else if (cut >= 0) {
    return std::nullopt;
  }
  const Layout layout(order, std::max(cut, 0), block);
  return to_string(layout) == text ? std::optional(layout) : std::nullopt;  // one text for each
}

int64_t stored_bytes(DType dtype, const Shape& shape, const Layout& layout) {
  if (layout.is_plain()) return size_in_bytes(dtype, shape);
  IPU_CHECK(layout.fits(shape), to_string(layout) + " does not describe " + to_string(shape));
  return size_in_bytes(dtype, layout.padded(shape));
}

}  // namespace ipu
