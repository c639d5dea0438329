// Replaces each `call` by a copy of the callee's ops, so that lowering sees loops and ifs only.
// Leaves loops, ifs, pipelines alone, and in the authored form graphs with order edges and calls that modify
// operands. Graphs that nobody calls any more go, unless they are entry points or the module has none (then
// every graph may be meant).
#include <unordered_set>

#include "ir/regions.h"
#include "passes/effects.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

class InlineCalls : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    std::unordered_set<ir::Graph*> inlined;
    // Callees first: what is copied has no calls left, so each op is copied once per call site of its graph.
    for (ir::Graph* graph : callees_first(module)) {
      if (has_order_edges(*graph)) continue;
      ir::Op* next = nullptr;
      for (ir::Op* op = graph->ops().empty() ? nullptr : graph->ops().front().get(); op != nullptr;
           op = next) {
        next = graph->next(op);
        if (!ir::is_call(*op) || op->attributes.has("modified")) continue;
        const ir::Region call(*op);
        ir::Graph& callee = call.body();
        replace_op(*op, inline_before(*op, callee, call.arguments()));
        inlined.insert(&callee);
        context.count("calls inlined");
      }
    }
    if (!module.entry_points.empty()) erase_uncalled(module, inlined);
    return !inlined.empty();
  }

 private:
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
                  {"calls inlined"});

}  // namespace
}  // namespace ipu::passes
