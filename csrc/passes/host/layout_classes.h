// Values that must agree on how they are stored, as they are or transposed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/module.h"
#include "support/layout.h"

namespace ipu::passes {

// Classes of nodes, each a tensor. A class is packed when somebody wants panels of one of its tensors and nobody refuses; all who
// want must mean the same memory.
class LayoutClasses {
 public:
  int add(const ir::Type& type);
  // Dimension i of a is dimension perm[i] of b; {}: the same.
  void unite(int a, int b, std::span<const int64_t> perm = {});
  void refuse(int node) { nodes_[index(root(node))].refused = true; }
  void want(int node, const Layout& layout);
  // Of the node, when its class is packed.
  std::optional<Layout> layout(int node);
  int root(int node) { return find(node).root; }

 private:
  using Map = std::array<int8_t, Layout::kMaxRank>;  // from dimensions of one tensor to those of another
  struct Node {
    int parent = -1, size = 1;
    Map map{};  // to the parent
    bool refused = false;
    std::optional<Layout> wanted;
    Shape shape;
  };
  struct Found {
    int root;
    Map map;  // to the root
  };
  static size_t index(int node) { return static_cast<size_t>(node); }
  Found find(int node);
  void attach(int child, int parent, const Map& map);
  void want_of_root(int root, const Layout& layout);

  std::vector<Node> nodes_;
};

}  // namespace ipu::passes
