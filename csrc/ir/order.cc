// Order edges: links known at both ends, and what becomes of them when an op goes (Graph::erase in module.h).
// The numbers of ops, which say who comes first in the list, are made only when an erasure needs them.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "ir/module.h"
#include "support/error.h"

namespace ipu::ir {
namespace {

constexpr size_t kMostCrossings = 64;  // edges that one erasure may make
constexpr size_t kShortList = 16;      // edges that are compared to find one twice

}  // namespace

void OrderEdges::push_back(Op* earlier) {
  IPU_CHECK(earlier != owner_, fmt::format("'{}' is ordered after itself", owner_->kind()));
  IPU_CHECK(earlier->graph() == owner_->graph(),
            fmt::format("'{}' is ordered after an op of another graph", owner_->kind()));
  std::vector<Edge>& mine = lists().earlier;
  std::vector<Edge>& theirs = earlier->after.lists().later;
  mine.push_back({earlier, theirs.size()});
  theirs.push_back({owner_, mine.size() - 1});
}

void OrderEdges::unlink(size_t i) {
  std::vector<Edge>& mine = lists_->earlier;
  const Edge edge = mine[i];
  std::vector<Edge>& later = edge.op->after.lists_->later;
  if (edge.twin + 1 != later.size()) {
    later[edge.twin] = later.back();
    const Edge& moved = later[edge.twin];
    moved.op->after.lists_->earlier[moved.twin].twin = edge.twin;
  }
  later.pop_back();
  if (i + 1 != mine.size()) {
    mine[i] = mine.back();
    const Edge& moved = mine[i];
    moved.op->after.lists_->later[moved.twin].twin = i;
  }
  mine.pop_back();
}

void OrderEdges::clear() {
  while (!empty()) unlink(size() - 1);
}

Op* Graph::last_listed(const OrderEdges& edges) {
  if (!is_numbered_) {
    int64_t number = 0;
    for (const auto& op : ops_) op->number_ = number++;
    is_numbered_ = true;
  }
  return *std::max_element(edges.begin(), edges.end(),
                           [](const Op* a, const Op* b) { return a->number_ < b->number_; });
}

void Graph::bridge(Op* op) {
  OrderEdges& edges = op->after;
  if (!edges.has_later()) return edges.clear();
  // An edge that is there twice must not become four.
  auto once = [](const std::vector<OrderEdges::Edge>& list) {
    std::vector<Op*> ops;
    std::unordered_set<const Op*> seen;
    for (const OrderEdges::Edge& edge : list)
      if (seen.insert(edge.op).second) ops.push_back(edge.op);
    return ops;
  };
  const std::vector<Op*> earlier_ops = once(edges.lists_->earlier), later_ops = once(edges.lists_->later);
  const size_t crossings = earlier_ops.size() * later_ops.size();
  const bool is_crowded = earlier_ops.size() > 1 && later_ops.size() > 1 && crossings > kMostCrossings;
  Op* meeting_point = is_crowded ? last_listed(edges) : nullptr;
  while (edges.has_later()) {
    const OrderEdges::Edge last = edges.lists_->later.back();
    last.op->after.unlink(last.twin);
  }
  edges.clear();

  // One edge is enough; it is looked for where that is cheap, and harmless when it is there twice.
  auto order = [](Op* later, Op* earlier) {
    if (later == earlier) return;
    const OrderEdges& known = later->after;
    const std::vector<OrderEdges::Edge>& others = earlier->after.lists().later;
    if (known.size() <= kShortList) {
      if (std::find(known.begin(), known.end(), earlier) != known.end()) return;
    } else if (others.size() <= kShortList) {
      if (std::any_of(others.begin(), others.end(), [&](const auto& edge) { return edge.op == later; }))
        return;
    }
    later->after.push_back(earlier);
  };
  if (meeting_point != nullptr) {
    for (Op* earlier : earlier_ops) order(meeting_point, earlier);
    for (Op* later : later_ops) order(later, meeting_point);
    return;
  }
  for (Op* later : later_ops)
    for (Op* earlier : earlier_ops) order(later, earlier);
}

}  // namespace ipu::ir
