#include "passes/semantic/recomputation_rule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/node_marks.h"
#include "ir/regions.h"
#include "ops/definition/effects.h"

namespace ipu::passes {
namespace {

using ir::RecomputationMode;

// What a mode counts and marks; loads, constants and the like are there anyway.
bool is_counted(const ir::Op& op) {
  return op.settings.context == ir::Context::kForward && (!ir::is_structural(op) || ir::is_region(op));
}

const ir::Origin* node_behind(const ir::Op& op) {
  return op.origin != nullptr && op.origin->attributes.has(ir::kOriginNode) ? op.origin.get() : nullptr;
}

struct ModelOperator {
  std::vector<ir::Op*> ops;
  bool leads = false;  // to the loss, or to what the backward pass reads
  bool can_repeat = true, is_checkpoint = false, is_asked_for = false, is_norm = false;
  bool is_behind_checkpoint = false, is_before_checkpoint = false;
  int stage = 0;
};

class RecomputationRule {
 public:
  RecomputationRule(const ir::Graph& graph, const ir::Strategy& strategy, bool is_pipeline)
      : graph_(graph),
        strategy_(strategy),
        is_pipeline_(is_pipeline),
        is_explicit_(graph.module()->attributes.boolean(ir::kExplicitRecomputation, false)) {
    collect();
    find_leads();
  }

  std::unordered_set<ir::Op*> run() {
    if (strategy_.recomputation == RecomputationMode::kStandard) keep_intervals();
    find_checkpoints();
    std::unordered_set<ir::Op*> marked;
    for (const ModelOperator& each : operators_)
      if (each.can_repeat && (each.is_asked_for || (each.leads && !each.is_checkpoint && is_marked(each))))
        marked.insert(each.ops.begin(), each.ops.end());
    return marked;
  }

 private:
  void collect() {
    std::unordered_map<const ir::Origin*, size_t> of_node;
    for (const auto& op : graph_.ops()) {
      if (!is_counted(*op)) continue;
      size_t at = operators_.size();
      if (const ir::Origin* node = node_behind(*op)) at = of_node.try_emplace(node, at).first->second;
      if (at == operators_.size()) operators_.emplace_back();
      ModelOperator& each = operators_[at];
      each.ops.push_back(op.get());
      number_[op.get()] = at;
      const ops::OpDef* def = ops::definition(*op);
      each.can_repeat = each.can_repeat && !ir::is_structural(*op) && !ops::has_side_effects(*op) &&
                        !(op->origin != nullptr && op->origin->attributes.has(ir::kOriginLoss));
      each.is_checkpoint |= op->settings.recompute == ir::Recompute::kCheckpoint;
      each.is_asked_for |= op->settings.recompute == ir::Recompute::kRecompute;
      each.is_norm |= def != nullptr && def->family == "normalization";
      each.stage = std::max(each.stage, op->settings.stage.value_or(0));
    }
  }

  // The loss counts where it is there: an op of the backward pass comes from it.
  void find_leads() {
    std::unordered_set<const ir::Value*> wanted;
    std::unordered_set<const ir::Origin*> differentiated;
    for (const auto& op : graph_.ops())
      if (op->settings.context == ir::Context::kBackward) {
        want_operands(*op, wanted);
        if (const ir::Origin* node = node_behind(*op)) differentiated.insert(node);
      }
    for (auto each = graph_.ops().rbegin(); each != graph_.ops().rend(); ++each) {
      const ir::Op* op = (*each).get();
      const auto at = number_.find(op);
      if (at == number_.end()) continue;
      const ir::Origin* node = node_behind(*op);
      bool leads = (node != nullptr && differentiated.contains(node)) ||
                   op->settings.recompute == ir::Recompute::kRecompute;  // clones are read in its place
      for (int i = 0; i < op->result_count(); ++i) leads = leads || wanted.contains(op->result(i));
      if (!leads) continue;
      operators_[at->second].leads = true;
      want_operands(*op, wanted);
    }
  }

  static void want_operands(const ir::Op& op, std::unordered_set<const ir::Value*>& wanted) {
    for (int i = 0; i < op.operand_count(); ++i)
      if (op.operand(i) != nullptr) wanted.insert(op.operand(i));
  }

  // Numbers of the operators that read results of `each`.
  void for_readers(const ModelOperator& each, const std::function<void(size_t)>& act) const {
    for (const ir::Op* op : each.ops)
      for (int i = 0; i < op->result_count(); ++i)
        for (const ir::Use& use : op->result(i)->uses())
          if (const auto at = number_.find(use.user); at != number_.end()) act(at->second);
  }

  void find_checkpoints() {
    for (const ModelOperator& each : operators_)
      if (each.is_checkpoint || each.is_behind_checkpoint)
        for_readers(each, [&](size_t reader) { operators_[reader].is_behind_checkpoint = true; });
    for (size_t i = operators_.size(); i-- > 0;)
      for_readers(operators_[i], [&](size_t reader) {
        if (operators_[reader].is_checkpoint || operators_[reader].is_before_checkpoint)
          operators_[i].is_before_checkpoint = true;
      });
  }

  bool is_marked(const ModelOperator& each) const {
    switch (strategy_.recomputation) {
      case RecomputationMode::kNone:
        return false;
      case RecomputationMode::kStandard:
        return true;  // what is kept is a checkpoint
      case RecomputationMode::kNormOnly:
        return each.is_norm;
      case RecomputationMode::kAll:
        return is_explicit_ || !each.is_behind_checkpoint || each.is_before_checkpoint;
      case RecomputationMode::kPipeline:
        if (!is_pipeline_) return false;
        return each.stage < strategy_.forward_stages - 1 || (!is_explicit_ && each.is_before_checkpoint);
    }
    return false;
  }

  // Of intervals of K, K - 1, ... operators, K = 0.75 (sqrt(2 N) - 1): what is live where that is least.
  void keep_intervals() {
    std::vector<ModelOperator*> leads;
    std::unordered_map<const ir::Op*, size_t> place;
    for (ModelOperator& each : operators_) {
      if (!each.leads) continue;
      for (const ir::Op* op : each.ops) place[op] = leads.size();
      leads.push_back(&each);
    }
    struct Live {
      size_t made, last;  // live behind operators made ... last - 1
    };
    std::vector<Live> values;
    std::vector<int64_t> bytes(leads.size() + 1, 0);
    for (size_t i = 0; i < leads.size(); ++i)
      for (const ir::Op* op : leads[i]->ops)
        for (int r = 0; r < op->result_count(); ++r) {
          size_t last = i;
          for (const ir::Use& use : op->result(r)->uses())
            if (const auto at = place.find(use.user); at != place.end()) last = std::max(last, at->second);
          if (last == i) continue;
          values.push_back({i, last});
          bytes[i] += op->result(r)->type().bytes();
          bytes[last] -= op->result(r)->type().bytes();
        }
    for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
    std::vector<size_t> cuts;
    const double all = std::sqrt(2.0 * static_cast<double>(leads.size()));
    auto length = static_cast<size_t>(std::max(1L, std::lround(0.75 * (all - 1.0))));
    for (size_t begin = 0; begin < leads.size(); length = std::max<size_t>(1, length - 1)) {
      const size_t end = std::min(leads.size(), begin + length);
      cuts.push_back(static_cast<size_t>(std::min_element(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                                          bytes.begin() + static_cast<std::ptrdiff_t>(end)) -
                                         bytes.begin()));
      begin = end;
    }
    for (const Live& value : values) {
      const auto cut = std::lower_bound(cuts.begin(), cuts.end(), value.made);
      if (cut != cuts.end() && *cut < value.last) leads[value.made]->is_checkpoint = true;
    }
  }

  const ir::Graph& graph_;
  const ir::Strategy& strategy_;
  const bool is_pipeline_, is_explicit_;
  std::vector<ModelOperator> operators_;
  std::unordered_map<const ir::Op*, size_t> number_;
};

}  // namespace

std::unordered_set<ir::Op*> find_marked(const ir::Graph& graph, const ir::Strategy& strategy,
                                        bool is_pipeline) {
  return RecomputationRule(graph, strategy, is_pipeline).run();
}

bool asks_for_recomputation(const ir::Module& module) {
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      if (op->settings.context == ir::Context::kForward &&
          op->settings.recompute == ir::Recompute::kRecompute)
        return true;
  return false;
}

}  // namespace ipu::passes
