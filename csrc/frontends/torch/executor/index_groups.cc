#include "frontends/torch/executor/index_groups.h"

#include <algorithm>
#include <map>
#include <queue>

#include "support/interruption.h"

namespace ipu::frontends::torch_frontend {
namespace {

bool is_scatter(const ir::Op& op) {
  return op.is("scatter") || op.is("scatter_add") || op.is("index_add") || op.is("index_copy");
}
bool is_gather(const ir::Op& op) { return op.is("gather") || op.is("index_select"); }

// Entries that become fewer: nodes of a graph whose edges are the operands of their ops.
class Grouping {
 public:
  explicit Grouping(const ir::Graph& graph) {
    std::map<std::string, const ir::Op*> known;
    for (const auto& op : graph.ops()) {
      poll_interruption();
      const std::string key = group_key(*op);
      if (!key.empty()) {
        std::string whole = key;
        for (int i = 0; i < op->operand_count(); ++i) {
          whole += ' ';
          whole += std::to_string(reinterpret_cast<uintptr_t>(stands_for(op->operand(i))));
        }
        auto [at, is_new] = known.try_emplace(whole, op.get());
        if (!is_new) {
          groups_.same_as.emplace(op->result(), at->second->result());
          continue;
        }
        keys_.push_back(key);
        members_[key].push_back(op.get());
      }
      node_of_[op.get()] = groups_.entries.size();
      groups_.entries.push_back({op.get()});
    }
  }

  IndexGroups take() {
    std::unordered_set<std::string> done;
    for (const std::string& key : keys_)
      if (members_.at(key).size() > 1 && done.insert(key).second && merge(key)) sort();
    return std::move(groups_);
  }

 private:
  const ir::Value* stands_for(const ir::Value* value) const {
    auto at = groups_.same_as.find(value);
    return at == groups_.same_as.end() ? value : at->second;
  }

  template <typename Visit>
  void each_source(size_t node, Visit visit) const {
    for (const ir::Op* op : groups_.entries[node])
      for (int i = 0; i < op->operand_count(); ++i) {
        const ir::Value* value = stands_for(op->operand(i));
        if (value != nullptr && value->producer() != nullptr) visit(node_of_.at(value->producer()));
      }
  }

  // Members that as many members lie above: none of them feeds another. Entries are in order.
  bool merge(const std::string& key) {
    std::unordered_set<size_t> members;
    for (const ir::Op* op : members_.at(key)) members.insert(node_of_.at(op));
    std::vector<int> above(groups_.entries.size(), 0);
    std::map<int, std::vector<size_t>> levels;
    for (size_t node = 0; node < above.size(); ++node) {
      each_source(node, [&](size_t source) {
        above[node] = std::max(above[node], above[source] + (members.contains(source) ? 1 : 0));
      });
      if (members.contains(node)) levels[above[node]].push_back(node);
    }
    bool changed = false;
    for (const auto& [level, nodes] : levels)
      for (size_t i = 1; i < nodes.size(); ++i) {
        std::vector<const ir::Op*>& from = groups_.entries[nodes[i]];
        node_of_[from.front()] = nodes.front();
        groups_.entries[nodes.front()].push_back(from.front());
        from.clear();
        changed = true;
      }
    return changed;
  }

  // Each entry after its sources, otherwise as before; entries without ops go.
  void sort() {
    const size_t count = groups_.entries.size();
    std::vector<int64_t> missing(count, 0);
    std::vector<std::vector<size_t>> readers(count);
    for (size_t node = 0; node < count; ++node)
      each_source(node, [&](size_t source) {
        ++missing[node];
        readers[source].push_back(node);
      });
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t node = 0; node < count; ++node)
      if (missing[node] == 0 && !groups_.entries[node].empty()) ready.push(node);
    std::vector<std::vector<const ir::Op*>> sorted;
    while (!ready.empty()) {
      const size_t node = ready.top();
      ready.pop();
      for (const size_t reader : readers[node])
        if (--missing[reader] == 0) ready.push(reader);
      for (const ir::Op* op : groups_.entries[node]) node_of_[op] = sorted.size();
      sorted.push_back(std::move(groups_.entries[node]));
    }
    groups_.entries = std::move(sorted);
  }

  IndexGroups groups_;
  std::vector<std::string> keys_;  // in order of first appearance, with repeats
  std::map<std::string, std::vector<const ir::Op*>> members_;
  std::unordered_map<const ir::Op*, size_t> node_of_;
};

bool is_expansion_of_torch(const ir::Op& op) {
  return op.is("expand") && op.origin != nullptr && op.origin->domain == "aten" &&
         op.origin->type.starts_with("expand");
}

// One dimension is expanded, and it and the gathered one are all that x has beside dimensions of 1.
bool reads_rows(const ir::Op& gather) {
  const ir::Value& index = *gather.operand(1);
  const Shape &from = index.producer()->operand(0)->type().shape, &to = index.type().shape,
              &x = gather.operand(0)->type().shape;
  const auto dim = static_cast<size_t>(gather.attributes.integer("dim"));
  if (from.size() != to.size()) return false;
  std::vector<size_t> expanded, longer;
  for (size_t d = 0; d < to.size(); ++d) {
    if (from[d] != to[d]) expanded.push_back(d);
    if (x[d] > 1) longer.push_back(d);
  }
  return expanded.size() == 1 && expanded[0] != dim && longer.size() == 2 &&
         std::count(longer.begin(), longer.end(), dim) == 1 &&
         std::count(longer.begin(), longer.end(), expanded[0]) == 1;
}

}  // namespace

std::string group_key(const ir::Op& op) {
  if (!is_scatter(op) && !is_gather(op)) return "";
  std::string key = is_gather(op) ? "gather" : op.kind();
  const auto add = [&](const std::string& part) {
    key += ' ';
    key += part;
  };
  add(std::to_string(op.attributes.integer("dim")));
  add(op.attributes.text("mode", ""));
  add(std::to_string(static_cast<int>(op.settings.context)));
  add(op.settings.block);
  for (int i = 0; i < op.operand_count(); ++i) add(to_string(op.operand(i)->type()));
  return key;
}

IndexGroups group_indexing(const ir::Graph& graph) { return Grouping(graph).take(); }

std::unordered_set<const ir::Op*> unneeded_expansions(const ir::Graph& graph) {
  std::unordered_set<const ir::Op*> found;
  for (const auto& op : graph.ops()) {
    if (!is_expansion_of_torch(*op) || op->result()->is_unused() || op->result()->is_output()) continue;
    const auto& uses = op->result()->uses();
    const bool is_index = std::all_of(uses.begin(), uses.end(), [&](const ir::Use& use) {
      if (use.index != 1) return false;
      if (use.user->is("gather")) return reads_rows(*use.user);
      // A mean is several scatters of one line.
      return is_scatter(*use.user) && use.user->location == uses.front().user->location &&
             use.user->operand(2)->type().shape == op->result()->type().shape;
    });
    if (is_index) found.insert(op.get());
  }
  return found;
}

}  // namespace ipu::frontends::torch_frontend
