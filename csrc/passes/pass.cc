// The registry of passes and the driver of rewrites of single ops.
#include "passes/pass.h"

#include <fmt/core.h>

#include "passes/effects.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::passes {
namespace {

std::map<std::string, PassInfo, std::less<>>& registry() {
  static std::map<std::string, PassInfo, std::less<>> passes;
  return passes;
}

constexpr int kMaxSweeps = 1000;  // a rewrite that still applies after so many sweeps undoes itself

}  // namespace

void register_pass(PassInfo info) {
  std::string name = info.name;
  bool added = registry().emplace(name, std::move(info)).second;
  IPU_CHECK(added, fmt::format("pass '{}' is registered twice", name));
}

const PassInfo* find_pass(std::string_view name) {
  auto at = registry().find(name);
  return at == registry().end() ? nullptr : &at->second;
}

std::vector<const PassInfo*> all_passes() {
  std::vector<const PassInfo*> list;
  for (const auto& [name, info] : registry()) list.push_back(&info);
  return list;
}

bool OpPass::run(ir::Module& module, const PassContext& context) {
  bool changed = false;
  for (const auto& graph : module.graphs()) {
    bool applied = !has_order_edges(*graph);
    for (int sweep = 0; applied; ++sweep) {
      IPU_CHECK(sweep < kMaxSweeps, fmt::format("a rewrite of @{} does not come to an end", graph->name()));
      applied = false;
      ir::Op* next = nullptr;
      for (ir::Op* op = graph->ops().empty() ? nullptr : graph->ops().front().get(); op != nullptr;
           op = next) {
        poll_interruption();
        next = graph->next(op);
        if (!may_apply(*op)) continue;
        apply(*op, context);
        applied = changed = true;
      }
    }
  }
  return changed;
}

}  // namespace ipu::passes
