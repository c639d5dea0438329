// Replaces each `call` by a copy of the callee's ops, unless that would multiply code: a graph whose copies would
// add more than kMostCopiedOps ops becomes a subroutine, compiled once (ir/subroutine.h; why so:
// docs/rationale/subroutines.md). So does one whose builder asked for it. Leaves loops, ifs, pipelines alone, and
// in the authored form graphs with order edges and calls that modify operands. Graphs that nobody calls any more
// go, unless they are entry points or the module has none (then every graph may be meant).
#include <unordered_set>

#include "ir/subroutine.h"
#include "ops/definition/effects.h"
#include "passes/effects.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

// At 100 us an operation, compiling that many copies takes a fifth of a second; a graph that is kept by this rule is
// so large that its calls cost nothing beside it (docs/rationale/subroutines.md has the measurements).
constexpr int64_t kMostCopiedOps = 2000;

class InlineCalls : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    std::unordered_set<ir::Graph*> inlined;
    const CallSites sites = find_call_sites(module);
    std::unordered_set<std::string> entries;
    for (const auto& [name, graph] : module.entry_points) entries.insert(graph);
    bool changed = false;
    // Callees first: what is copied has no calls left, so each op is copied once per call site of its graph. Where that
    // is the only one, and the graph goes afterwards, its ops move.
    for (ir::Graph* graph : callees_first(module)) {
      if (has_order_edges(*graph)) continue;
      ir::Op* next = nullptr;
      for (ir::Op* op = graph->ops().empty() ? nullptr : graph->ops().front().get(); op != nullptr;
           op = next) {
        next = graph->next(op);
        if (!ir::is_call(*op) || op->attributes.has("modified") || ir::called_subroutine(*op) != nullptr)
          continue;
        const ir::Region call(*op);
        ir::Graph& callee = call.body();
        const std::vector<ir::Op*>& all = sites.at(&callee);
        const bool moves = !entries.empty() && !entries.contains(callee.name()) && all.size() == 1 &&
                           all.front() == op && !has_order_edges(callee);
        replace_op(*op, moves ? move_before(*op, callee, call.arguments())
                              : inline_before(*op, callee, call.arguments()));
        inlined.insert(&callee);
        context.count("calls inlined");
      }
      changed |= decide(module, *graph, sites, context);  // its ops are those it will have
    }
    if (!module.entry_points.empty()) erase_uncalled(module, inlined);
    return changed || !inlined.empty();
  }

 private:
  // Whether calls of `graph` stay; says whether that was not known before.
  static bool decide(ir::Module& module, ir::Graph& graph, const CallSites& sites,
                     const PassContext& context) {
    const bool was_asked = ir::is_subroutine(graph);
    if (!was_asked && graph.attributes.has(ir::kSubroutine)) return false;  // its builder says no
    auto at = sites.find(&graph);
    const int64_t count = at == sites.end() ? 0 : static_cast<int64_t>(at->second.size());
    const bool multiplies = (count - 1) * static_cast<int64_t>(graph.op_count()) > kMostCopiedOps;
    if (!was_asked && !multiplies) return false;
    const bool stays = count > 0 && may_stay(module, graph, at->second);
    if (stays) context.count("subroutines");
    if (stays == was_asked) return false;
    if (stays)
      graph.attributes.set(ir::kSubroutine, true);
    else
      graph.attributes.erase(ir::kSubroutine);
    return true;
  }

  // What is a subroutine must not depend on its sites: stages of a pipeline, places, and conditions known at compile
  // time, by which transfers to the host are counted, are settled by inlining.
  static bool may_stay(const ir::Module& module, const ir::Graph& graph, const std::vector<ir::Op*>& sites) {
    if (module.entry_points.empty()) return false;
    for (const auto& [name, entry] : module.entry_points)
      if (entry == graph.name()) return false;
    for (const auto& each : module.graphs())
      for (const auto& op : each->ops())
        if (op->is(ir::kind::kPipeline)) return false;
    for (const ir::Op* site : sites)
      if (!site->is(ir::kind::kCall) || site->attributes.has("modified") || has_order_edges(*site->graph()) ||
          site->settings.stage.has_value() || site->settings.phase.has_value())
        return false;
    for (const ir::Value* input : graph.inputs())
      if (input->by_reference) return false;
    bool has_branches = false, has_effects = false;
    std::unordered_set<const ir::Graph*> seen;
    return stands_alone(graph, seen, has_branches, has_effects) && !(has_branches && has_effects);
  }

  static bool stands_alone(const ir::Graph& graph, std::unordered_set<const ir::Graph*>& seen,
                           bool& has_branches, bool& has_effects) {
    if (!seen.insert(&graph).second) return true;
    if (has_order_edges(graph)) return false;
    for (const auto& op : graph.ops()) {
      if (ir::touches_variable(*op) || (!ir::is_region(*op) && !op->settings.ipu.has_value())) return false;
      has_branches |= op->is(ir::kind::kIf);
      has_effects |= ops::has_side_effects(*op);
      for (const ir::Graph* callee : ir::called_graphs(*op))
        if (!stands_alone(*callee, seen, has_branches, has_effects)) return false;
    }
    return true;
  }

  static void erase_uncalled(ir::Module& module, const std::unordered_set<ir::Graph*>& inlined) {
    CallSites sites = find_call_sites(module);
    std::unordered_set<std::string> entries;
    for (const auto& [name, graph] : module.entry_points) entries.insert(graph);
    std::vector<ir::Graph*> dead;
    for (const auto& graph : module.graphs())
      if (inlined.contains(graph.get()) && !sites.contains(graph.get()) && !entries.contains(graph->name()))
        dead.push_back(graph.get());
    for (ir::Graph* graph : dead) module.erase_graph(graph);
    if (!dead.empty()) erase_stale_code_loads(module);
  }
};

IPU_REGISTER_PASS(InlineCalls, "inline-calls", "Replaces calls by the ops of the graphs they call.",
                  {"calls inlined", "subroutines"});

}  // namespace
}  // namespace ipu::passes
