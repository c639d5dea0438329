#include "passes/semantic/order_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/structure.h"
#include "ops/definition/effects.h"
#include "passes/semantic/memory_map.h"
#include "support/interruption.h"
#include "support/wording.h"

namespace ipu::passes {
namespace {

// Whether one op needs another to have run. The longest chain of the graph, its spine, answers at once for all
// ops that lead to it before the others leave it: all of a graph in sequence, and most of any program. What is
// left is looked for between the two ops in the list.
class Dependences {
 public:
  explicit Dependences(const ir::Graph& graph) {
    for (const auto& op : graph.ops()) {
      index_[op.get()] = ops_.size();
      ops_.push_back(op.get());
    }
    std::vector<size_t> depth(ops_.size(), 0), longest(ops_.size());
    size_t last = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
      longest[i] = i;
      each_before(i, [&](size_t before) {
        if (depth[before] + 1 > depth[i]) {
          depth[i] = depth[before] + 1;
          longest[i] = before;
        }
      });
      if (depth[i] > depth[last]) last = i;
    }
    entered_.assign(ops_.size(), kNever);
    left_.assign(ops_.size(), kAlways);
    if (ops_.empty()) return;
    std::vector<bool> on_spine(ops_.size(), false);
    for (size_t i = last;; i = longest[i]) {
      on_spine[i] = true;
      entered_[i] = left_[i] = static_cast<int64_t>(depth[i]);
      if (longest[i] == i) break;
    }
    for (size_t i = 0; i < ops_.size(); ++i)
      if (!on_spine[i]) each_before(i, [&](size_t before) { left_[i] = std::max(left_[i], left_[before]); });
    for (size_t i = ops_.size(); i-- > 0;)
      each_before(i, [&](size_t before) {
        if (!on_spine[before]) entered_[before] = std::min(entered_[before], entered_[i]);
      });
  }

  bool reaches(const ir::Op& earlier, const ir::Op& later) const {
    const size_t from = index_.at(&earlier), to = index_.at(&later);
    if (from == to || entered_[from] <= left_[to]) return true;
    std::unordered_set<size_t> seen{to};
    std::vector<size_t> stack{to};
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      if (at == from) return true;
      each_before(at, [&](size_t before) {
        if (before >= from && seen.insert(before).second) stack.push_back(before);
      });
    }
    return false;
  }

 private:
  static constexpr int64_t kNever = INT64_MAX, kAlways = -1;

  template <typename Visit>
  void each_before(size_t i, Visit visit) const {
    const ir::Op& op = *ops_[i];
    for (int k = 0; k < op.operand_count(); ++k)
      if (op.operand(k) != nullptr && op.operand(k)->producer() != nullptr)
        visit(index_.at(op.operand(k)->producer()));
    for (const ir::Op* before : op.after) visit(index_.at(before));
  }

  std::vector<const ir::Op*> ops_;
  std::unordered_map<const ir::Op*, size_t> index_;
  std::vector<int64_t> entered_;  // first place of the spine that the op leads to
  std::vector<int64_t> left_;     // last place of the spine that leads to the op
};

class OrderCheck {
 public:
  explicit OrderCheck(const ir::Graph& graph) : graph_(graph) {}

  void run() {
    std::unordered_set<const Place*> written;  // at all
    for (const auto& op : graph_.ops()) {
      const ir::Effects effects = ops::effects(*op);
      if (!effects.aliases.empty()) {
        std::vector<ir::Value*> operands;
        for (int i = 0; i < op->operand_count(); ++i) operands.push_back(op->operand(i));
        map_.add(*op, effects, operands);
      }
      for (const ir::Write& write : effects.writes)
        for (const Place* memory : map_.place(op->operand(write.operand)).memories) written.insert(memory);
    }
    if (written.empty()) return;
    dependences_.emplace(graph_);
    for (const auto& op : graph_.ops()) {
      poll_interruption();
      const ir::Effects effects = ops::effects(*op);
      std::vector<const Place*> reads, writes;
      std::unordered_set<const Place*> seen;
      for (const ir::Write& write : effects.writes)
        for (const Place* memory : map_.place(op->operand(write.operand)).memories)
          if (seen.insert(memory).second) (is_by_call(*op) ? reads : writes).push_back(memory);
      for (int i = 0; i < op->operand_count(); ++i) {
        const Place* place = op->operand(i) == nullptr ? nullptr : map_.find(op->operand(i));
        if (place == nullptr ||
            std::find(effects.unread.begin(), effects.unread.end(), i) != effects.unread.end())
          continue;
        for (const Place* memory : place->memories)
          if (written.contains(memory) && seen.insert(memory).second) reads.push_back(memory);
      }
      for (const Place* memory : reads) access(*op, *memory, false);
      for (const Place* memory : writes) access(*op, *memory, true);
    }
  }

 private:
  using Place = MemoryMap::Place;
  struct Accesses {
    const ir::Op* last_write = nullptr;
    std::vector<const ir::Op*> reads;  // since then
  };

  // What a call, a loop or a branch writes by reference is outside of this check: such ops run in the order of the list.
  static bool is_by_call(const ir::Op& op) {
    const auto runs_graphs = [](const ir::Op& by) {
      return by.is(ir::kind::kCall) || by.is(ir::kind::kLoop) || by.is(ir::kind::kIf);
    };
    if (runs_graphs(op)) return true;
    if (!op.is(ir::kind::kWrite)) return false;
    // The result of a loop that goes back to the operand it came from.
    const ir::Op* producer = op.operand(1)->producer();
    if (producer == nullptr || !producer->is(ir::kind::kLoop)) return false;
    for (int i = 0; i < producer->operand_count(); ++i)
      if (producer->operand(i) == op.operand(0)) return true;
    return false;
  }

  void access(const ir::Op& op, const Place& memory, bool writes) {
    Accesses& known = accesses_[&memory];
    if (known.last_write != nullptr) demand(*known.last_write, op, memory);
    if (!writes) {
      known.reads.push_back(&op);
      return;
    }
    for (const ir::Op* read : known.reads) demand(*read, op, memory);
    known = {&op, {}};
  }

  void demand(const ir::Op& earlier, const ir::Op& later, const Place& memory) {
    if (dependences_->reaches(earlier, later)) return;
    throw worded(ErrorCode::kInvalidIr, "ambiguous_order",
                 "ambiguous order: %{value} of @{graph} is accessed by {earlier} and by {later}, one of them "
                 "writes to it, and neither operands nor order edges say which comes first.",
                 {{"value", memory.value->name()},
                  {"graph", graph_.name()},
                  {"earlier", described(earlier)},
                  {"later", described(later)}})
        .at(ir::user_line(later.location));
  }

  const ir::Graph& graph_;
  MemoryMap map_;
  std::optional<Dependences> dependences_;
  std::unordered_map<const Place*, Accesses> accesses_;
};

}  // namespace

void check_order(const ir::Graph& graph) { OrderCheck(graph).run(); }

}  // namespace ipu::passes
