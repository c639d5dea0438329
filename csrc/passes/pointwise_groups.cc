#include "passes/pointwise_groups.h"

#include <algorithm>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "ops/expression/expr_rounding.h"
#include "passes/op_table.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

constexpr int kMaxOps = 48, kMaxOperands = 14, kMaxResults = 8;  // of a group: registers of the VM are few
constexpr int64_t kWindow = 64;

// Groups a value depends on, as bits of numbers newest - 63 ... newest: the highest bit is the newest one.
struct Dependence {
  int64_t newest = 0;
  uint64_t bits = 0;

  // The same groups as seen when `now` is the newest; those that left the window are forgotten.
  uint64_t at(int64_t now) const { return bits == 0 || now - newest >= kWindow ? 0 : bits >> (now - newest); }
  void add(const Dependence& other, int64_t now) {
    bits = at(now) | other.at(now);
    newest = now;
  }
  void add(int64_t group, int64_t now) {
    bits = at(now) | (now - group >= kWindow ? 0 : uint64_t{1} << (kWindow - 1 - (now - group)));
    newest = now;
  }
};

struct Group {
  std::vector<ir::Op*> members;
  std::vector<int64_t> numbers;  // its own and those of groups it took in
  Dependence outside;            // of what its members read from outside
  std::unordered_set<const ir::Value*> operands;
  int parent = -1;  // taken in by this one
};

// Lists of many nodes in one piece of memory; each keeps the order of what it was made of.
template <typename T>
class ByNode {
 public:
  ByNode(size_t nodes, const std::vector<std::pair<int, T>>& items)
      : begin_(nodes + 2, 0), items_(items.size()) {
    for (const auto& [node, item] : items) ++begin_[static_cast<size_t>(node) + 2];
    for (size_t n = 2; n < begin_.size(); ++n) begin_[n] += begin_[n - 1];
    for (const auto& [node, item] : items) items_[begin_[static_cast<size_t>(node) + 1]++] = item;
  }
  std::span<const T> of(size_t node) const {
    return std::span<const T>(items_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }

 private:
  std::vector<size_t> begin_;  // of each node, and the end of the last
  std::vector<T> items_;
};

class GraphFusion {
 public:
  GraphFusion(ir::Graph& graph, const Effects& effects, const PassContext& context, const MayJoin& may_join)
      : graph_(graph), effects_(effects), context_(context), may_join_(may_join) {}

  bool run() {
    if (has_order_edges(graph_)) return false;
    for (const auto& op : graph_.ops()) {
      poll_interruption();
      visit(*op);
    }
    int grouped = 0;
    OpTable<int> group_of(-1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].parent >= 0 || groups_[g].members.size() < 2) continue;
      for (const ir::Op* op : groups_[g].members) group_of[*op] = static_cast<int>(g);
      grouped += static_cast<int>(groups_[g].members.size());
    }
    // Circles the window did not show: their groups are given up.
    while (grouped > 0 && !sort(group_of, grouped)) {
    }
    if (grouped == 0) return false;
    for (Group& group : groups_)
      if (group.parent < 0 && group.members.size() >= 2) fuse(group);
    return true;
  }

 private:
  bool is_candidate(const ir::Op& op) const {
    if (may_join_ && !may_join_(op)) return false;
    if (!ops::is_function(op) || !ops::definition(op)->expression) return false;
    const ir::Type& type = op.result()->type();
    if (type.elements() <= 1 && !is_floating_point(type.dtype)) return false;  // control
    for (int i = 0; i < op.result_count(); ++i)
      if (op.result(i)->type().shape != type.shape || op.result(i)->type().layout != type.layout)
        return false;
    for (int i = 0; i < op.operand_count(); ++i)
      if (op.operand(i) == nullptr) return false;
    return true;
  }

  static bool fit_together(const ir::Op& a, const ir::Op& b) {
    const ir::Type &x = a.result()->type(), &y = b.result()->type();
    const ir::Settings &s = a.settings, &t = b.settings;
    return x.shape == y.shape && x.layout == y.layout && s.ipu == t.ipu && s.stage == t.stage &&
           s.phase == t.phase && s.block == t.block && s.tile_set == t.tile_set &&
           s.recompute == t.recompute && s.outline == t.outline;
  }

  int find(int g) const {
    while (groups_[g].parent >= 0) g = groups_[g].parent;
    return g;
  }
  // Groups run as a whole, so a value depends on all that any group before it reads, members that came later
  // included.
  bool depends(const Dependence& d, const Group& group) const {
    const int64_t now = static_cast<int64_t>(groups_.size()) - 1;
    uint64_t bits = d.at(now), seen = 0;
    while (uint64_t fresh = bits & ~seen) {
      const int bit = __builtin_ctzll(fresh);
      seen |= uint64_t{1} << bit;
      bits |= groups_[find(static_cast<int>(now - (kWindow - 1) + bit))].outside.at(now);
    }
    for (int64_t number : group.numbers)
      if (bits >> (kWindow - 1 - (now - number)) & 1) return true;
    return false;
  }
  bool is_open(const Group& group) const {
    const int64_t now = static_cast<int64_t>(groups_.size());  // one more may be made for the op itself
    return std::all_of(group.numbers.begin(), group.numbers.end(),
                       [&](int64_t n) { return now - n < kWindow; });
  }
  int group_of(const ir::Value* value) const {
    if (value->producer() == nullptr) return -1;
    const int g = group_of_.at(*value->producer());
    return g < 0 ? -1 : find(g);
  }

  void visit(ir::Op& op) {
    int mine = -1;
    if (is_candidate(op)) {
      for (int i = 0; i < op.operand_count(); ++i) {
        const int theirs = group_of(op.operand(i));
        if (theirs < 0 || theirs == mine || !may_join(op, theirs)) continue;
        if (mine < 0) {
          mine = theirs;
        } else if (may_merge(mine, theirs) && may_join_without(op, mine, theirs)) {
          merge(mine, theirs);
        }
      }
      if (mine >= 0 && !may_join(op, mine)) mine = -1;
      if (mine < 0) {
        mine = static_cast<int>(groups_.size());
        groups_.emplace_back();
        groups_[mine].numbers = {mine};
      }
    }
    const int64_t now = static_cast<int64_t>(groups_.size()) - 1;
    Dependence own;
    own.newest = now;
    for (int i = 0; i < op.operand_count(); ++i) {
      const ir::Value* operand = op.operand(i);
      if (operand == nullptr) continue;
      own.add(dependence(operand), now);
      if (mine < 0 || group_of(operand) == mine) continue;
      groups_[mine].operands.insert(operand);
      groups_[mine].outside.add(dependence(operand), now);
    }
    // Ops with effects stay in order; reads of state too.
    if (!effects_.is_pure(op)) {
      own.add(effects_so_far_, now);
      effects_so_far_ = own;
    }
    if (mine >= 0) {
      Group& group = groups_[mine];
      group.members.push_back(&op);
      group_of_[op] = mine;
      own.add(group.outside, now);
      for (int64_t number : group.numbers) own.add(number, now);
    }
    dependence_[op] = own;
  }

  // Nothing outside of the group lies between it and `op`.
  bool may_join(const ir::Op& op, int g) const {
    const Group& group = groups_[g];
    if (!is_open(group) || !fit_together(*group.members.front(), op) || group.members.size() >= kMaxOps)
      return false;
    size_t operands = group.operands.size();
    for (int i = 0; i < op.operand_count(); ++i) {
      if (group_of(op.operand(i)) == g) continue;
      operands += !group.operands.contains(op.operand(i));
      if (depends(dependence(op.operand(i)), group)) return false;
    }
    return operands <= kMaxOperands;
  }
  bool may_join_without(const ir::Op& op, int a, int b) const {
    for (int i = 0; i < op.operand_count(); ++i) {
      const int theirs = group_of(op.operand(i));
      if (theirs == a || theirs == b) continue;
      const Dependence theirs_on = dependence(op.operand(i));
      if (depends(theirs_on, groups_[a]) || depends(theirs_on, groups_[b])) return false;
    }
    return true;
  }
  bool may_merge(int a, int b) const {
    const Group &x = groups_[a], &y = groups_[b];
    return is_open(x) && is_open(y) && x.members.size() + y.members.size() < kMaxOps &&
           x.operands.size() + y.operands.size() <= kMaxOperands &&
           fit_together(*x.members.front(), *y.members.front()) && !depends(x.outside, y) &&
           !depends(y.outside, x);
  }
  void merge(int into, int from) {
    Group &x = groups_[into], &y = groups_[from];
    const int64_t now = static_cast<int64_t>(groups_.size()) - 1;
    x.members.insert(x.members.end(), y.members.begin(), y.members.end());
    x.numbers.insert(x.numbers.end(), y.numbers.begin(), y.numbers.end());
    x.operands.insert(y.operands.begin(), y.operands.end());
    x.outside.add(y.outside, now);
    y.parent = into;
    y.members.clear();
  }

  // Members of a group come to stand one behind the other, everything else keeps its order as far as it can.
  // When groups depend on each other in a circle nothing is moved, and those groups are taken out of
  // `group_of`.
  bool sort(OpTable<int>& group_of, int& grouped) {
    OpTable<int> node_of(-1);
    std::vector<int> rank;  // of a node: position of its last op
    std::vector<int> node_of_group(groups_.size(), -1);
    std::vector<std::pair<int, ir::Op*>> placed;  // node, op
    placed.reserve(graph_.op_count());
    for (const auto& op : graph_.ops()) {
      poll_interruption();
      const int group = group_of.at(*op);
      int node = group >= 0 ? node_of_group[static_cast<size_t>(group)] : -1;
      if (node < 0) {
        node = static_cast<int>(rank.size());
        rank.push_back(0);
        if (group >= 0) node_of_group[static_cast<size_t>(group)] = node;
      }
      rank[node] = static_cast<int>(placed.size());
      placed.emplace_back(node, op.get());
      node_of[*op] = node;
    }
    const size_t node_count = rank.size();
    const ByNode<ir::Op*> nodes(node_count, placed);
    std::vector<std::pair<int, int>> edges;  // node, a node that comes after it
    edges.reserve(2 * placed.size());
    std::vector<int> waiting(node_count, 0);
    auto edge = [&](int from, int to) {
      if (from == to) return;
      edges.emplace_back(from, to);
      ++waiting[to];
    };
    const ir::Op* last_effect = nullptr;
    for (const auto& op : graph_.ops()) {
      for (int i = 0; i < op->operand_count(); ++i)
        if (op->operand(i) != nullptr && op->operand(i)->producer() != nullptr)
          edge(node_of.at(*op->operand(i)->producer()), node_of.at(*op));
      if (effects_.is_pure(*op)) continue;
      if (last_effect != nullptr) edge(node_of.at(*last_effect), node_of.at(*op));
      last_effect = op.get();
    }
    const ByNode<int> after(node_count, edges);
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
    for (size_t n = 0; n < node_count; ++n)
      if (waiting[n] == 0) ready.emplace(rank[n], static_cast<int>(n));
    std::vector<int> sequence;
    while (!ready.empty()) {
      const int node = ready.top().second;
      ready.pop();
      sequence.push_back(node);
      for (int next : after.of(static_cast<size_t>(node)))
        if (--waiting[next] == 0) ready.emplace(rank[next], next);
    }
    if (sequence.size() == node_count) {
      for (int node : sequence)
        for (ir::Op* op : nodes.of(static_cast<size_t>(node))) graph_.move_before(op, nullptr);
      return true;
    }
    for (size_t n = 0; n < node_count; ++n) {
      const std::span<ir::Op* const> members = nodes.of(n);
      if (waiting[n] == 0 || members.size() < 2) continue;
      groups_[static_cast<size_t>(group_of.at(*members.front()))].members.clear();
      for (const ir::Op* op : members) group_of[*op] = -1;
      grouped -= static_cast<int>(members.size());
    }
    return false;
  }

  void fuse(Group& group) {
    std::sort(group.members.begin(), group.members.end(),
              [this](const ir::Op* a, const ir::Op* b) { return order(a) < order(b); });
    const std::unordered_set<const ir::Op*> inside(group.members.begin(), group.members.end());
    std::vector<ir::Value*> operands, results;
    std::vector<DType> dtypes;
    std::unordered_map<const ir::Value*, ops::Expr> trees;
    auto tree_of = [&](ir::Value* value) {
      auto [at, is_new] = trees.try_emplace(value);
      if (is_new) {
        at->second = ops::Expr::input(static_cast<int>(operands.size()), value->type().dtype);
        operands.push_back(value);
        dtypes.push_back(value->type().dtype);
      }
      return at->second;
    };
    std::vector<ops::Expr> roots;
    std::vector<ir::Type> types;
    std::vector<std::string> dtype_names;
    for (ir::Op* op : group.members) {
      const ops::OpDef& def = *ops::definition(*op);
      std::vector<ops::Expr> inputs;
      for (int i = 0; i < op->operand_count(); ++i) inputs.push_back(tree_of(op->operand(i)));
      std::vector<ops::Expr> values =
          def.expression(inputs, ops::with_defaults(def, op->attributes), op->result()->type().dtype);
      for (int i = 0; i < op->result_count(); ++i) {
        ir::Value* result = op->result(i);
        // Each op rounds its result, inside the group as outside.
        if (values[i].dtype() == DType::kF16 && !ops::is_rounded_f16(values[i]))
          values[i] = ops::cast(ops::cast(values[i], DType::kF32), DType::kF16);
        trees[result] = values[i];
        bool is_read_outside = result->is_output();
        for (const ir::Use& use : result->uses()) is_read_outside |= !inside.contains(use.user);
        if (!is_read_outside) continue;
        results.push_back(result);
        roots.push_back(values[i]);
        types.push_back(result->type());
        dtype_names.emplace_back(to_string(result->type().dtype));
      }
    }
    if (results.empty() || results.size() > kMaxResults) return;
    Attributes attributes = ops::compile(roots, dtypes).to_attributes();
    attributes.set("dtypes", dtype_names);
    ir::Op* last = group.members.back();
    ir::Op* fused =
        graph_.create("fused_pointwise", operands, std::move(attributes), types, graph_.next(last));
    fused->settings = last->settings;
    std::vector<ir::Location> places;
    for (const ir::Op* op : group.members) places.push_back(op->location);
    fused->location = ir::join(last->location, places);
    std::vector<std::string> names;
    for (size_t i = 0; i < results.size(); ++i) {
      names.push_back(results[i]->name());
      results[i]->replace_all_uses_with(fused->result(static_cast<int>(i)));
    }
    for (auto op = group.members.rbegin(); op != group.members.rend(); ++op) graph_.erase(*op);
    for (size_t i = 0; i < names.size(); ++i) graph_.rename(fused->result(static_cast<int>(i)), names[i]);
    context_.count("ops fused", static_cast<int64_t>(group.members.size()));
    context_.count("groups");
  }

  // Position in program order after sort().
  int order(const ir::Op* op) {
    if (!is_numbered_) {
      int position = 0;
      for (const auto& each : graph_.ops()) order_[*each] = position++;
      is_numbered_ = true;
    }
    return order_.at(*op);
  }
  Dependence dependence(const ir::Value* value) const {
    return value->producer() == nullptr ? Dependence() : dependence_.at(*value->producer());
  }

  ir::Graph& graph_;
  const Effects& effects_;
  const PassContext& context_;
  const MayJoin& may_join_;
  std::vector<Group> groups_;
  OpTable<int> group_of_{-1};
  OpTable<Dependence> dependence_{Dependence()};  // of the results
  Dependence effects_so_far_;
  OpTable<int> order_{-1};
  bool is_numbered_ = false;
};

}  // namespace

bool join_pointwise(ir::Graph& graph, const Effects& effects, const PassContext& context,
                    const MayJoin& may_join) {
  return GraphFusion(graph, effects, context, may_join).run();
}

}  // namespace ipu::passes
