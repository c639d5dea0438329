// Gives every op its IPU and, in pipelines, its stage, in phased programs its phase: block → place by the tables of the
// module's strategy (ir/strategy.h), written by the step builder. Backward ops carry the block of their forward op and
// land in the mirrored stage 2F-2-i, or in phase "backward_phase_base" - p. Ops that
// stand with their users (ops/replicable.h) get the place of the first, and variables too. Not here:
// copies between IPUs (insert-ipu-copies), the split into stages (pipeline-to-rings), the order of phases (order-phases).
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/regions.h"
#include "ir/strategy.h"
#include "ops/replicable.h"
#include "passes/op_table.h"
#include "passes/pass.h"
#include "support/wording.h"

namespace ipu::passes {
namespace {

constexpr int64_t kNoStage = INT64_MAX;

struct BlockPlace {
  int64_t stage = 0, ipu = 0, phase = 0;
};

class Place : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    read_tables(module);
    positions_ = {};
    first_places_.clear();
    changed_ = placed_ = 0;
    for (const auto& graph : module.graphs()) place_by_blocks(*graph);
    std::unordered_set<const ir::Graph*> done;
    for (const auto& graph : module.graphs()) place_followers(*graph, done);
    for (const auto& graph : module.graphs()) check_stage_order(*graph);
    place_tables(module);
    context.count("ops placed", placed_);
    return changed_ > 0;
  }

 private:
  void read_tables(const ir::Module& module) {
    places_.clear();
    const ir::Strategy strategy = ir::strategy_of(module);
    forward_stages_ = strategy.forward_stages;
    is_pipelined_ = strategy.schedule == ir::Schedule::kPipelined && forward_stages_ > 1;
    is_phased_ = strategy.schedule == ir::Schedule::kPhased;
    backward_phase_base_ = strategy.backward_phase_base;
    for (size_t i = 0; i < strategy.blocks.size(); ++i)
      places_[strategy.blocks[i]] = {strategy.block_stages[i], strategy.block_ipus[i],
                                     strategy.block_phases.empty() ? 0 : strategy.block_phases[i]};
  }

  BlockPlace place_of_block(const ir::Op& op) const {
    auto at = places_.find(op.settings.block);
    if (at != places_.end()) return at->second;
    if (op.settings.block.empty()) return {};
    throw Error(ErrorCode::kCapture, fmt::format("Unknown Block: '{}' at {} has no stage or IPU.",
                                                 op.settings.block, ir::to_string(op.location)));
  }

  void set_ipu(ir::Op& op, int64_t ipu) {
    if (op.settings.ipu.has_value()) return;
    op.settings.ipu = static_cast<int>(ipu);
    ++placed_;
    ++changed_;
  }
  void set_stage(ir::Op& op, int64_t stage) {
    if (!is_pipelined_ || op.settings.stage.has_value()) return;
    op.settings.stage = static_cast<int>(stage);
    ++changed_;
  }

  void set_phase(ir::Op& op, int64_t phase) {
    if (!is_phased_ || op.settings.phase.has_value()) return;
    op.settings.phase = static_cast<int>(phase);
    ++changed_;
  }

  // Updates run when the pipeline has drained.
  static bool belongs_to_stage(const ir::Op& op) {
    return !ir::touches_variable(op) &&
           (op.settings.context == ir::Context::kForward || op.settings.context == ir::Context::kBackward);
  }

  void place_by_block(ir::Op& op) {
    const bool has_stage = belongs_to_stage(op);
    // Captured ops that hold graphs belong to a stage; their IPUs are those of the ops inside.
    if (ir::is_region(op) && (op.settings.block.empty() || !has_stage)) return;
    const BlockPlace place = place_of_block(op);
    if (!ir::is_region(op)) set_ipu(op, place.ipu);
    if (!has_stage) return;
    set_stage(op, op.settings.context == ir::Context::kForward ? place.stage
                                                               : 2 * forward_stages_ - 2 - place.stage);
    set_phase(
        op, op.settings.context == ir::Context::kForward ? place.phase : backward_phase_base_ - place.phase);
  }

  void place_by_blocks(ir::Graph& graph) {
    OpTable<int64_t>& positions = positions_.try_emplace(&graph, 0).first->second;
    int64_t position = 0;
    for (const auto& op : graph.ops()) {
      positions[*op] = position++;
      if (!ops::stands_with_users(*op) && !ir::touches_variable(*op) && !follow_operand(*op))
        place_by_block(*op);
    }
  }

  // Graphs that are called come first, since their ops are users too; within a graph the last op does, since
  // a constant may follow an op that itself follows another.
  void place_followers(ir::Graph& graph, std::unordered_set<const ir::Graph*>& done) {
    if (!done.insert(&graph).second) return;
    for (const auto& op : graph.ops())
      for (ir::Graph* callee : ir::called_graphs(*op)) place_followers(*callee, done);
    for (auto at = graph.ops().rbegin(); at != graph.ops().rend(); ++at) {
      ir::Op& op = **at;
      if (!ops::stands_with_users(op)) continue;
      const ir::Op* first = nullptr;
      for (int i = 0; i < op.result_count(); ++i) offer(first, first_reader(*op.result(i)));
      if (first == nullptr) {
        place_by_block(op);
        continue;
      }
      set_ipu(op, *first->settings.ipu);
      if (first->settings.stage.has_value() && belongs_to_stage(op)) set_stage(op, *first->settings.stage);
      if (first->settings.phase.has_value() && belongs_to_stage(op)) set_phase(op, *first->settings.phase);
    }
  }

  // A store stands where its value is made.
  bool follow_operand(ir::Op& op) {
    if (!op.is(ir::kind::kHostStore) && !op.is(ir::kind::kRingPush)) return false;
    const ir::Op* producer = op.operand(0)->producer();
    if (producer == nullptr || !producer->settings.ipu.has_value() || ir::is_region(*producer)) return false;
    set_ipu(op, *producer->settings.ipu);
    if (producer->settings.stage.has_value()) set_stage(op, *producer->settings.stage);
    if (producer->settings.phase.has_value()) set_phase(op, *producer->settings.phase);
    return true;
  }

  static int64_t stage_rank(const ir::Op& op) {
    if (op.settings.phase.has_value()) return *op.settings.phase;
    return op.settings.stage.has_value() ? *op.settings.stage : kNoStage;
  }

  static void offer(const ir::Op*& first, const ir::Op* candidate) {
    if (candidate == nullptr || !candidate->settings.ipu.has_value()) return;
    if (first == nullptr || stage_rank(*candidate) < stage_rank(*first)) first = candidate;
  }

  // First op, by stage and then by order, that reads `value` here or in a graph it is handed to; nullptr:
  // none.
  const ir::Op* first_reader(const ir::Value& value) {
    auto [at, is_new] = first_places_.try_emplace(&value, nullptr);
    if (!is_new) return at->second;
    std::vector<ir::Use> uses(value.uses().begin(), value.uses().end());
    const OpTable<int64_t>& positions = positions_.at(value.graph());
    std::sort(uses.begin(), uses.end(), [&](const ir::Use& a, const ir::Use& b) {
      return std::pair(positions.at(*a.user), a.index) < std::pair(positions.at(*b.user), b.index);
    });
    const ir::Op* first = nullptr;
    for (const ir::Use& use : uses) {
      if (!ir::is_region(*use.user)) {
        if (!ir::touches_variable(*use.user)) offer(first, use.user);
        continue;
      }
      const ir::Region region(*use.user);
      const int input = region.input(use.index);
      for (const ir::Graph* graph : region.bodies())
        if (input >= 0 && input < static_cast<int>(graph->inputs().size()))
          offer(first, first_reader(*graph->inputs()[input]));
    }
    first_places_[&value] = first;
    return first;
  }

  void place_tables(ir::Module& module) {
    for (const bool reads : {true, false})
      for (const auto& graph : module.graphs())
        for (const auto& op : graph->ops()) {
          if (!op->is(reads ? ir::kind::kVariableRead : ir::kind::kVariableAssign)) continue;
          ir::Variable* variable = module.find_variable(op->attributes.symbol("variable").name);
          IPU_CHECK(variable != nullptr, fmt::format("variable of '{}' does not exist", op->kind()));
          if (!variable->ipu.has_value()) {
            const ir::Op* reader = reads ? first_reader(*op->result()) : nullptr;
            variable->ipu =
                reader != nullptr ? *reader->settings.ipu : static_cast<int>(place_of_block(*op).ipu);
            ++changed_;
          }
          set_ipu(*op, *variable->ipu);
        }
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops()) {
        if (!op->is(ir::kind::kHostLoad) && !op->is(ir::kind::kHostStore)) continue;
        ir::Stream* stream = module.find_stream(op->attributes.symbol("stream").name);
        if (stream == nullptr || stream->ipu.has_value()) continue;
        stream->ipu = op->settings.ipu;
        ++changed_;
      }
  }

  void check_stage_order(const ir::Graph& graph) const {
    if (!is_pipelined_) return;
    for (const auto& op : graph.ops()) {
      if (!op->settings.stage.has_value() || op->settings.context != ir::Context::kForward) continue;
      for (int i = 0; i < op->operand_count(); ++i) {
        const ir::Value* operand = op->operand(i);
        const ir::Op* producer = operand == nullptr ? nullptr : operand->producer();
        if (producer == nullptr || !producer->settings.stage.has_value()) continue;
        if (*producer->settings.stage > *op->settings.stage) going_back(*op, *producer);
      }
    }
  }

  [[noreturn]] static void going_back(const ir::Op& op, const ir::Op& producer) {
    auto describe = [](const ir::Op& it) {
      return fmt::format("'{}' at {} in block '{}' (stage {}{})", it.kind(), ir::to_string(it.location),
                         it.settings.block, *it.settings.stage,
                         it.settings.ipu.has_value() ? fmt::format(", IPU {}", *it.settings.ipu) : "");
    };
    throw worded(ErrorCode::kStageOrder, "stage_going_back",
                 "pipeline stage going back: {reader} reads a result of {producer}. In a pipeline data never "
                 "flow to an earlier stage.",
                 {{"reader", describe(op)}, {"producer", describe(producer)}})
        .at(ir::user_line(op.location));
  }

  std::map<std::string, BlockPlace> places_;
  int64_t forward_stages_ = 1;
  int64_t backward_phase_base_ = 0;
  bool is_pipelined_ = false, is_phased_ = false;
  std::unordered_map<const ir::Graph*, OpTable<int64_t>> positions_;
  std::unordered_map<const ir::Value*, const ir::Op*> first_places_;
  int64_t changed_ = 0, placed_ = 0;
};

IPU_REGISTER_PASS(Place, "place", "Gives every op its IPU, pipeline stage and phase, from blocks.",
                  {"ops placed"});

}  // namespace
}  // namespace ipu::passes
