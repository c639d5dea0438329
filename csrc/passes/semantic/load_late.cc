// Loads from streaming memory happen when their value is needed: right before the first reader, or, in a
// phased program, at the beginning of each phase that reads it, one load for each. What makes a value whole
// again (a gather of shards, a copy from the tiles for I/O) goes with its load. A load never passes a store to
// its buffer, or a region that has one. Not here: loads on their own in loops, stores, values the host loads.
#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <unordered_map>

#include "ir/regions.h"
#include "ir/strategy.h"
#include "ops/definition/op_def.h"
#include "passes/effects.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

constexpr int kNoPhase = INT_MIN;

class LoadLate : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    if (module.remote_buffers().empty()) return false;
    is_phased_ = ir::strategy_of(module).schedule == ir::Schedule::kPhased;
    stored_in_.clear();
    moved_ = added_ = 0;
    for (ir::Graph* graph : callees_first(module)) note_stores(*graph);
    for (const auto& graph : module.graphs())
      if (!has_order_edges(*graph)) look_at(*graph);
    context.count("loads moved to their readers", moved_);
    context.count("loads added for phases", added_);
    return moved_ + added_ > 0;
  }

 private:
  // A load and the ops that make its value whole; readers read the result of the last.
  using Chain = std::vector<ir::Op*>;

  void note_stores(const ir::Graph& graph) {
    std::set<std::string>& stored = stored_in_[&graph];
    for (const auto& op : graph.ops()) {
      if (op->is(ir::kind::kRemoteStore)) stored.insert(op->attributes.symbol("buffer").name);
      for (const ir::Graph* callee : ir::called_graphs(*op))
        stored.insert(stored_in_[callee].begin(), stored_in_[callee].end());
    }
  }

  void look_at(ir::Graph& graph) {
    std::vector<ir::Op*> loads, listed;
    position_.clear();
    phase_begins_.clear();
    stores_.clear();
    for (const auto& op : graph.ops()) {
      if (op->is(ir::kind::kRemoteLoad)) loads.push_back(op.get());
      const int64_t here = static_cast<int64_t>(listed.size());
      position_[op.get()] = here;
      listed.push_back(op.get());
      if (op->settings.phase.has_value() && !belongs_to_load(*op))
        phase_begins_.try_emplace(*op->settings.phase, here);
      if (op->is(ir::kind::kRemoteStore)) stores_[op->attributes.symbol("buffer").name].push_back(here);
      if (const std::string buffer = assigned_buffer(*op); !buffer.empty()) stores_[buffer].push_back(here);
      for (const ir::Graph* callee : ir::called_graphs(*op))
        for (const std::string& buffer : stored_in_[callee]) stores_[buffer].push_back(here);
    }
    for (ir::Op* load : loads) place(graph, *load, listed);
  }

  static bool belongs_to_load(const ir::Op& op) {
    if (op.is(ir::kind::kRemoteLoad)) return true;
    if (!ops::has_trait(op, ops::kCompletesLoad)) return false;
    const ir::Op* producer = op.operand(0)->producer();
    return producer != nullptr && belongs_to_load(*producer);
  }

  static Chain chain_of(ir::Op& load) {
    Chain chain{&load};
    for (;;) {
      const ir::Value& value = *chain.back()->result();
      if (value.is_output() || value.uses().size() != 1) return chain;
      ir::Op* user = value.uses()[0].user;
      if (!ops::has_trait(*user, ops::kCompletesLoad)) return chain;
      chain.push_back(user);
    }
  }

  void place(ir::Graph& graph, ir::Op& load, const std::vector<ir::Op*>& listed) {
    const Chain chain = chain_of(load);
    ir::Value& whole = *chain.back()->result();
    if (whole.uses().empty() || whole.is_output()) return;
    const int64_t here = position_.at(&load);
    // Before this, the buffer holds what the load reads.
    int64_t limit = INT64_MAX;
    if (auto at = stores_.find(load.attributes.symbol("buffer").name); at != stores_.end())
      if (auto next = std::upper_bound(at->second.begin(), at->second.end(), here); next != at->second.end())
        limit = *next;
    std::map<int64_t, std::vector<ir::Use>> readers;  // by where the load for them goes
    std::map<int64_t, int> phases;
    for (const ir::Use& use : whole.uses()) {
      int64_t target = position_.at(use.user);
      const int phase = is_phased_ ? use.user->settings.phase.value_or(kNoPhase) : kNoPhase;
      if (phase != kNoPhase) target = std::min(target, phase_begins_.at(phase));
      target = std::max(std::min(target, limit), here);
      auto [known, is_new] = phases.try_emplace(target, phase);
      if (!is_new) known->second = std::max(known->second, phase);
      readers[target].push_back(use);
    }
    // Readers outside phases, and those of an unphased program, share the first load.
    bool is_first = true;
    for (const auto& [target, uses] : readers) {
      if (is_first) {
        move(graph, chain, here, target, listed, phases.at(target));
        is_first = false;
      } else if (phases.at(target) != kNoPhase) {
        add(graph, chain, *listed[static_cast<size_t>(target)], uses, phases.at(target));
      }
    }
  }

  void move(ir::Graph& graph, const Chain& chain, int64_t here, int64_t target,
            const std::vector<ir::Op*>& listed, int phase) {
    if (phase != kNoPhase)
      for (ir::Op* op : chain) op->settings.phase = phase;
    // Behind the chain and other loads that wait for the same reader: it stays where it is.
    int64_t next = here + 1;
    while (next < target && belongs_to_load(*listed[static_cast<size_t>(next)])) ++next;
    if (next >= target) return;
    for (ir::Op* op : chain) graph.move_before(op, listed[static_cast<size_t>(target)]);
    ++moved_;
  }

  void add(ir::Graph& graph, const Chain& chain, ir::Op& before, const std::vector<ir::Use>& uses,
           int phase) {
    ir::Value* value = nullptr;
    for (const ir::Op* op : chain) {
      std::vector<ir::Value*> operands;
      for (int i = 0; i < op->operand_count(); ++i) operands.push_back(op->operand(i));
      if (value != nullptr) operands[0] = value;
      ir::Op* copy = graph.copy(*op, operands, &before);
      copy->settings.phase = phase;
      value = copy->result();
    }
    for (const ir::Use& use : uses) use.user->set_operand(use.index, value);
    ++added_;
  }

  bool is_phased_ = false;
  std::unordered_map<const ir::Graph*, std::set<std::string>> stored_in_;
  std::unordered_map<const ir::Op*, int64_t> position_;
  std::unordered_map<int, int64_t> phase_begins_;
  std::unordered_map<std::string, std::vector<int64_t>> stores_;  // positions, rising
  int64_t moved_ = 0, added_ = 0;
};

IPU_REGISTER_PASS(LoadLate, "load-late", "Loads values from streaming memory when they are needed.",
                  {"loads moved to their readers", "loads added for phases"});

}  // namespace
}  // namespace ipu::passes
