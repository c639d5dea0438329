// Moves the elementwise tail of a graph up to where its operands are ready: each gradient is accumulated,
// each weight updated, right after it is made. Gradients then live for a moment instead of for the whole
// backward pass, and are still in the cache when they are used. The tail are the elementwise ops that lead
// only to outputs of the graph and to variable.assign. One that reads state (an input of the graph, a
// variable; not of one element, as the index of a loop) stays behind the last other reader of it, so that the
// new value can take the place of the old one; where that reader comes after the assignment, before the
// assignment. What a loop carries on likewise comes behind the ops of the tail that read what it was before.
// Only the order of the list changes.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/regions.h"
#include "ir/structure.h"
#include "ops/definition/effects.h"
#include "passes/effects.h"
#include "passes/op_table.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

class HoistUpdates : public Pass {
 public:
  explicit HoistUpdates(bool in_backward_pass_alone = false)
      : in_backward_pass_alone_(in_backward_pass_alone) {}
  bool run(ir::Module& module, const PassContext& context) override {
    int64_t hoisted = 0;
    const CallSites sites = find_call_sites(module);
    for (const auto& graph : module.graphs()) {
      auto site = sites.find(graph.get());
      hoisted += hoist(*graph, site == sites.end() ? nullptr : site->second.front());
    }
    context.count("ops hoisted", hoisted);
    return hoisted > 0;
  }

 private:
  using OpSet = OpTable<uint8_t>;  // 1: contained
  using Places = OpTable<int64_t>;
  static constexpr int64_t kNowhere = INT64_MIN;
  using Old = std::unordered_map<const ir::Op*, std::vector<const ir::Op*>>;

  // `site`: one of those that run the graph; nullptr: none.
  int64_t hoist(ir::Graph& graph, const ir::Op* site) const {
    OpSet tail(0);
    bool is_empty = true;
    for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at)
      if (is_tail(**at, tail)) {
        tail[**at] = 1;
        is_empty = false;
      }
    if (is_empty) return 0;

    std::vector<ir::Op*> others;  // everything else, in order; an anchor is an index into it, -1: the start
    Places anchor(kNowhere);
    std::vector<ir::Op*> moving, constants;
    for (const auto& op : graph.ops()) {
      if (tail.at(*op) != 0) {
        moving.push_back(op.get());
      } else if (op->is(ir::kind::kConstant)) {
        anchor[*op] = -1;
        constants.push_back(op.get());
      } else {
        anchor[*op] = static_cast<int64_t>(others.size());
        others.push_back(op.get());
      }
    }
    // Where each op of the tail is now: the last of the others before it.
    Places now(kNowhere);
    int64_t last = -1;
    for (const auto& op : graph.ops()) {
      if (tail.at(*op) != 0) {
        now[*op] = last;
      } else if (!op->is(ir::kind::kConstant)) {
        ++last;
      }
    }
    const std::vector<ir::Op*> listed = moving;
    const Old old_readers = readers_of_old(graph, site, tail);
    if (!old_readers.empty()) moving = readers_first(listed, old_readers);
    const Places latest = latest_places(moving, tail, anchor);
    int64_t hoisted = 0;
    std::unordered_map<const ir::Value*, int64_t> last_readers;
    for (ir::Op* op : moving) {
      int64_t earliest = -1;
      for (int i = 0; i < op->operand_count(); ++i) {
        const ir::Value* operand = op->operand(i);
        if (operand == nullptr) continue;
        if (operand->producer() != nullptr) earliest = std::max(earliest, anchor.at(*operand->producer()));
        if (is_state(*operand) && operand->type().elements() > 1)
          earliest = std::max(earliest, last_reader(*operand, tail, anchor, last_readers));
      }
      if (auto readers = old_readers.find(op); readers != old_readers.end())
        for (const ir::Op* reader : readers->second) earliest = std::max(earliest, anchor.at(*reader));
      anchor[*op] = std::min(earliest, latest.at(*op));
    }
    let_light_ops_wait(moving, anchor);
    std::stable_sort(moving.begin(), moving.end(),
                     [&](const ir::Op* a, const ir::Op* b) { return anchor.at(*a) < anchor.at(*b); });
    for (size_t i = 0; i < moving.size(); ++i)
      hoisted +=
          anchor.at(*moving[i]) != now.at(*moving[i]) || (!old_readers.empty() && moving[i] != listed[i]);
    if (hoisted == 0) return 0;
    // Constants of the tail were made beside it; they cost nothing anywhere, so all go first.
    ir::Op* first = graph.ops().front().get();
    for (ir::Op* op : constants)
      if (op != first) graph.move_before(op, first);
    for (ir::Op* op : moving) {
      const auto next = static_cast<size_t>(anchor.at(*op) + 1);
      graph.move_before(op, next < others.size() ? others[next] : nullptr);
    }
    return hoisted;
  }

  // What makes a value that the loop carries on → the ops of the tail that read what was carried before. When
  // they have run, the new value can take its place.
  static Old readers_of_old(const ir::Graph& graph, const ir::Op* site, const OpSet& tail) {
    Old readers;
    if (site == nullptr || !site->is(ir::kind::kLoop)) return readers;
    const ir::Region loop(*site);
    for (int i = 0; i < loop.carried(); ++i) {
      const ir::Op* maker = graph.outputs()[static_cast<size_t>(loop.output(i))]->producer();
      if (maker == nullptr || tail.at(*maker) == 0) continue;
      for_each_reader(*graph.inputs()[static_cast<size_t>(loop.input(i))], [&](const ir::Op& reader) {
        if (&reader != maker && tail.at(reader) != 0) readers[maker].push_back(&reader);
      });
    }
    return readers;
  }

  // The tail in its order, but readers of an old value before what makes the new one, unless they read that too,
  // directly or through others.
  static std::vector<ir::Op*> readers_first(const std::vector<ir::Op*>& listed, const Old& old_readers) {
    std::unordered_map<const ir::Op*, size_t> number;
    for (size_t i = 0; i < listed.size(); ++i) number.emplace(listed[i], i);
    std::vector<std::vector<size_t>> users(listed.size()), makers(listed.size());
    std::vector<int> operands(listed.size(), 0), readers(listed.size(), 0);  // to wait for: must, should
    for (size_t i = 0; i < listed.size(); ++i) {
      for (int k = 0; k < listed[i]->operand_count(); ++k) {
        const ir::Value* operand = listed[i]->operand(k);
        auto at = operand == nullptr ? number.end() : number.find(operand->producer());
        if (at == number.end()) continue;
        users[at->second].push_back(i);
        ++operands[i];
      }
      if (auto at = old_readers.find(listed[i]); at != old_readers.end())
        for (const ir::Op* reader : at->second) {
          makers[number.at(reader)].push_back(i);
          ++readers[i];
        }
    }
    std::vector<ir::Op*> sequence;
    std::vector<bool> is_done(listed.size());
    std::set<size_t> free, held;  // all operands are there; held: a reader is not
    auto offer = [&](size_t i) {
      if (is_done[i] || operands[i] > 0) return;
      (readers[i] > 0 ? held : free).insert(i);
      if (readers[i] == 0) held.erase(i);
    };
    for (size_t i = 0; i < listed.size(); ++i) offer(i);
    while (sequence.size() < listed.size()) {
      std::set<size_t>& from = free.empty() ? held : free;
      const size_t i = *from.begin();
      from.erase(from.begin());
      is_done[i] = true;
      sequence.push_back(listed[i]);
      for (size_t user : users[i]) {
        --operands[user];
        offer(user);
      }
      for (size_t maker : makers[i]) {
        --readers[maker];
        offer(maker);
      }
    }
    return sequence;
  }

  // Before the assignments that wait for it, directly or through other ops of the tail.
  static Places latest_places(const std::vector<ir::Op*>& moving, const OpSet& tail, const Places& anchor) {
    Places latest(kNowhere);
    for (auto op = moving.rbegin(); op != moving.rend(); ++op) {
      int64_t place = INT64_MAX;
      for (int i = 0; i < (*op)->result_count(); ++i)
        for (const ir::Use& use : (*op)->result(i)->uses())
          place = std::min(place, tail.at(*use.user) != 0 ? latest.at(*use.user) : anchor.at(*use.user) - 1);
      latest[**op] = place;
    }
    return latest;
  }

  bool is_tail(const ir::Op& op, const OpSet& tail) const {
    if (in_backward_pass_alone_ && op.settings.context != ir::Context::kBackward) return false;
    if (!ops::has_trait(op, ops::kElementwise) || ops::has_side_effects(op) || !op.after.empty())
      return false;
    bool is_read = false;
    for (int i = 0; i < op.result_count(); ++i) {
      is_read = is_read || !op.result(i)->is_unused();
      for (const ir::Use& use : op.result(i)->uses())
        if (tail.at(*use.user) == 0 && !use.user->is(ir::kind::kVariableAssign)) return false;
    }
    return is_read;
  }

  // Made early, what follows from state alone would only take up memory.
  static void let_light_ops_wait(const std::vector<ir::Op*>& moving, Places& anchor) {
    std::unordered_set<const ir::Value*> light;
    for (const ir::Op* op : moving) {
      bool is_light = true;
      for (int i = 0; i < op->operand_count() && is_light; ++i) {
        const ir::Value* operand = op->operand(i);
        is_light = operand == nullptr || operand->type().shape.empty() || is_state(*operand) ||
                   light.contains(operand);
      }
      for (int i = 0; i < op->result_count() && is_light; ++i) light.insert(op->result(i));
    }
    for (auto at = moving.rbegin(); at != moving.rend(); ++at) {
      int64_t first_reader = INT64_MAX;
      bool may_wait = true;
      for (int i = 0; i < (*at)->result_count(); ++i) {
        may_wait = may_wait && light.contains((*at)->result(i)) && !(*at)->result(i)->is_output();
        for (const ir::Use& use : (*at)->result(i)->uses()) {
          const int64_t reader = anchor.at(*use.user);
          may_wait = may_wait && reader != kNowhere && !use.user->is(ir::kind::kVariableAssign);
          if (may_wait) first_reader = std::min(first_reader, reader);
        }
      }
      if (may_wait && first_reader != INT64_MAX) anchor[**at] = std::max(anchor.at(**at), first_reader);
    }
  }

  // Readers of a value and of its views: they read the same memory.
  template <typename Visit>
  static void for_each_reader(const ir::Value& value, Visit visit) {
    std::vector<const ir::Value*> same_memory{&value};
    while (!same_memory.empty()) {
      const ir::Value* one = same_memory.back();
      same_memory.pop_back();
      for (const ir::Use& use : one->uses()) {
        visit(*use.user);
        if (use.index == 0 && ops::view_rule(*use.user) != nullptr) same_memory.push_back(use.user->result());
      }
    }
  }

  static bool is_state(const ir::Value& value) {
    return value.producer() == nullptr || value.producer()->is(ir::kind::kVariableRead);
  }

  static int64_t last_reader(const ir::Value& value, const OpSet& tail, const Places& anchor,
                             std::unordered_map<const ir::Value*, int64_t>& known) {
    auto [at, is_new] = known.try_emplace(&value, -1);
    if (!is_new) return at->second;
    for_each_reader(value, [&, place = &at->second](const ir::Op& reader) {
      if (tail.at(reader) == 0) *place = std::max(*place, anchor.at(reader));
    });
    return at->second;
  }

  const bool in_backward_pass_alone_;
};

// For the machine form: updates stay behind the sums over replicas, which so are one.
class HoistAccumulations : public HoistUpdates {
 public:
  HoistAccumulations() : HoistUpdates(true) {}
};

IPU_REGISTER_PASS(HoistAccumulations, "hoist-accumulations",
                  "Accumulates each gradient right after it is made.", {"ops hoisted"});
IPU_REGISTER_PASS(HoistUpdates, "hoist-updates", "Applies each update right after its gradient is made.",
                  {"ops hoisted"});

}  // namespace
}  // namespace ipu::passes
