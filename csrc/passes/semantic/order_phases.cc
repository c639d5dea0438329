// Lists the ops of a phased program phase by phase ("schedule" is "phased"; `place` gave each op its phase).
// Within a phase, and among ops without one, the order stays. A forward op that reads what a later phase makes
// is an error; a backward op that does (a sum of gradients of several phases) moves to that phase. Ops without
// a phase (updates, what is read from variables) stand where their operands are ready. Loads from streaming
// memory have no phase of their own: load-late puts them into those of their readers. Stores, loads after
// them, regions with effects and barriers keep their order. Not here: when loads happen, what leaves the chip.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/regions.h"
#include "ir/strategy.h"
#include "ops/definition/effects.h"
#include "passes/effects.h"
#include "passes/pass.h"
#include "support/error.h"

namespace ipu::passes {
namespace {

class OrderPhases : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    if (ir::strategy_of(module).schedule != ir::Schedule::kPhased) return false;
    const Effects effects(module);
    int64_t moved = 0;
    for (const auto& graph : module.graphs())
      if (has_phases(*graph)) moved += order(*graph, effects);
    context.count("ops moved to their phase", moved);
    return moved > 0;
  }

 private:
  static bool has_phases(const ir::Graph& graph) {
    return !has_order_edges(graph) && std::any_of(graph.ops().begin(), graph.ops().end(), [](const auto& op) {
      return op->settings.phase.has_value();
    });
  }

  static int64_t order(ir::Graph& graph, const Effects& effects) {
    std::unordered_map<const ir::Op*, int64_t> rank;
    std::unordered_map<std::string, int64_t> stored;  // remote buffer → rank of its last store
    std::unordered_map<std::string, int64_t> touched;
    std::unordered_map<std::string, int64_t> moved_by;  // stream or ring → rank of its last transfer
    std::unordered_set<const ir::Op*> free;             // loads, and what makes their values whole again
    int64_t barrier = 0, highest = 0, changed = 0;
    for (const auto& op : graph.ops()) {
      const bool is_load = op->is(ir::kind::kRemoteLoad), is_store = op->is(ir::kind::kRemoteStore);
      int64_t data = 0;
      for (int i = 0; i < op->operand_count(); ++i)
        if (const ir::Value* operand = op->operand(i); operand != nullptr && operand->producer() != nullptr)
          data = std::max(data, rank.at(operand->producer()));
      int64_t ready = std::max(barrier, data);
      const std::string queue = queue_of(*op), assigned = assigned_buffer(*op);
      if (!queue.empty()) ready = std::max(ready, moved_by[queue]);
      if (!assigned.empty()) ready = std::max(ready, touched[assigned]);
      if (is_load || is_store) {
        const std::string& buffer = op->attributes.symbol("buffer").name;
        ready = std::max(ready, is_load ? stored[buffer] : touched[buffer]);
      }
      const bool completes = ops::has_trait(*op, ops::kCompletesLoad);
      if (is_load || (completes && free.contains(op->operand(0)->producer()))) free.insert(op.get());
      const bool is_barrier =
          (ir::is_region(*op) && !effects.is_removable(*op)) || op->is(ir::kind::kIoBarrier);
      if (is_barrier) ready = std::max(ready, highest);
      int64_t place = ready;
      if (op->settings.phase.has_value() && !free.contains(op.get())) {
        const int64_t own = *op->settings.phase;
        if (own < ready) {  // behind a region with effects an op may wait without reading anything
          if (own < data && op->settings.context == ir::Context::kForward && !is_store) going_back(*op, rank);
          op->settings.phase = static_cast<int>(ready);
          ++changed;
        }
        place = std::max(own, ready);
      }
      rank[op.get()] = place;
      highest = std::max(highest, place);
      if (is_barrier) barrier = place;
      if (is_load || is_store) {
        const std::string& buffer = op->attributes.symbol("buffer").name;
        touched[buffer] = std::max(touched[buffer], place);
        if (is_store) stored[buffer] = place;
      }
      if (!assigned.empty()) touched[assigned] = stored[assigned] = place;
      if (!queue.empty()) moved_by[queue] = place;
    }
    return changed + sort(graph, rank);
  }

  // The stream or ring whose elements come in order; "": none.
  static std::string queue_of(const ir::Op& op) {
    if (op.is(ir::kind::kHostLoad) || op.is(ir::kind::kHostStore))
      return "stream " + op.attributes.symbol("stream").name;
    if (op.is(ir::kind::kRingPush) || op.is(ir::kind::kRingPop))
      return "ring " + op.attributes.symbol("ring").name;
    return "";
  }

  static int64_t sort(ir::Graph& graph, const std::unordered_map<const ir::Op*, int64_t>& rank) {
    std::vector<ir::Op*> listed;
    for (const auto& op : graph.ops()) listed.push_back(op.get());
    std::vector<ir::Op*> wanted = listed;
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](const ir::Op* a, const ir::Op* b) { return rank.at(a) < rank.at(b); });
    int64_t moved = 0;
    for (size_t i = 0; i < listed.size(); ++i) moved += wanted[i] != listed[i];
    if (moved > 0)
      for (ir::Op* op : wanted) graph.move_before(op, nullptr);
    return moved;
  }

  [[noreturn]] static void going_back(const ir::Op& op,
                                      const std::unordered_map<const ir::Op*, int64_t>& rank) {
    const ir::Op* producer = nullptr;
    for (int i = 0; i < op.operand_count(); ++i) {
      const ir::Op* made = op.operand(i) == nullptr ? nullptr : op.operand(i)->producer();
      if (made != nullptr && (producer == nullptr || rank.at(made) > rank.at(producer))) producer = made;
    }
    IPU_CHECK(producer != nullptr, "an op that waits for another");
    auto describe = [&](const ir::Op& it, int64_t phase) {
      return fmt::format("'{}' at {} in block '{}' (phase {})", it.kind(), ir::to_string(it.location),
                         it.settings.block, phase);
    };
    throw Error(
        ErrorCode::kStageOrder,
        fmt::format("phase going back: {} reads a result of {}. Phases run one after the other, so data "
                    "never flow to an earlier one.\n"
                    "  try:      put the block of the first op into the phase of the second, or a later "
                    "one",
                    describe(op, *op.settings.phase), describe(*producer, rank.at(producer))))
        .at(ir::user_line(op.location));
  }
};

IPU_REGISTER_PASS(OrderPhases, "order-phases", "Lists the ops of a phased program phase by phase.",
                  {"ops moved to their phase"});

}  // namespace
}  // namespace ipu::passes
