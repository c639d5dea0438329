#include "passes/host/layout_classes.h"

#include <utility>

#include "ir/transposed_layout.h"

namespace ipu::passes {
namespace {

bool is_packable(const ir::Type& type) {
  return (type.dtype == DType::kF32 || type.dtype == DType::kF16) && type.shape.size() >= 2 &&
         type.shape.size() <= Layout::kMaxRank && !type.layout.is_channels_last() &&
         type.elements() > 1;  // one element broadcasts: its layout would say nothing
}

template <class Map>
Map inverse(const Map& map, size_t rank) {
  Map result{};
  for (size_t i = 0; i < rank; ++i) result[static_cast<size_t>(map[i])] = static_cast<int8_t>(i);
  return result;
}

}  // namespace

int LayoutClasses::add(const ir::Type& type) {
  Node node;
  node.shape = type.shape;
  node.refused = !is_packable(type);
  if (type.layout.is_blocked()) node.wanted = type.layout;
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

LayoutClasses::Found LayoutClasses::find(int node) {
  Map map;
  for (size_t i = 0; i < map.size(); ++i) map[i] = static_cast<int8_t>(i);
  int root = node;
  for (; nodes_[index(root)].parent >= 0; root = nodes_[index(root)].parent)
    for (int8_t& dimension : map) dimension = nodes_[index(root)].map[static_cast<size_t>(dimension)];
  if (root != node) {
    nodes_[index(node)].parent = root;
    nodes_[index(node)].map = map;
  }
  return {root, map};
}

void LayoutClasses::unite(int a, int b, std::span<const int64_t> perm) {
  const Shape &left = nodes_[index(a)].shape, &right = nodes_[index(b)].shape;
  const auto partner = [&](size_t i) { return perm.empty() ? i : static_cast<size_t>(perm[i]); };
  bool fits = left.size() == right.size() && left.size() <= Layout::kMaxRank;
  for (size_t i = 0; fits && i < left.size(); ++i) fits = left[i] == right[partner(i)];
  const Found of_a = find(a), of_b = find(b);
  Map map{};  // from the root of b to that of a
  for (size_t i = 0; fits && i < left.size(); ++i) {
    const auto there = static_cast<size_t>(of_b.map[partner(i)]);
    map[there] = of_a.map[i];
    if (of_a.root == of_b.root) fits = map[there] == static_cast<int8_t>(there);
  }
  if (!fits) {
    refuse(a);
    refuse(b);
  } else if (of_a.root != of_b.root) {
    if (nodes_[index(of_a.root)].size < nodes_[index(of_b.root)].size)
      attach(of_a.root, of_b.root, inverse(map, left.size()));
    else
      attach(of_b.root, of_a.root, map);
  }
}

void LayoutClasses::attach(int child, int parent, const Map& map) {
  Node &from = nodes_[index(child)], &to = nodes_[index(parent)];
  from.parent = parent;
  from.map = map;
  to.size += from.size;
  to.refused |= from.refused;
  if (from.wanted) want_of_root(parent, ir::renamed_layout(*from.wanted, from.shape.size(), map));
}

void LayoutClasses::want_of_root(int root, const Layout& layout) {
  Node& node = nodes_[index(root)];
  node.refused |= node.wanted && *node.wanted != layout;
  node.wanted = layout;
}

void LayoutClasses::want(int node, const Layout& layout) {
  const Found found = find(node);
  want_of_root(found.root, ir::renamed_layout(layout, nodes_[index(node)].shape.size(), found.map));
}

std::optional<Layout> LayoutClasses::layout(int node) {
  const Found found = find(node);
  const Node& root = nodes_[index(found.root)];
  if (!root.wanted || root.refused) return std::nullopt;
  return ir::renamed_layout(*root.wanted, root.shape.size(), inverse(found.map, root.shape.size()));
}

}  // namespace ipu::passes
