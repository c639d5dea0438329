#include "lowering/nest.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/regions.h"
#include "lowering/subroutine.h"
#include "ops/replicable.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::lowering {
namespace {

namespace kind = ir::kind;
constexpr int kMaxDepth = 100;  // of nested graphs; more is recursion

}  // namespace

bool Scope::is_loop_body() const { return site != nullptr && site->is(kind::kLoop); }

Nest::Nest(const ir::Module& module, const ir::Graph& entry, const Subroutines* subroutines,
           const Processors* processors)
    : module_(module), subroutines_(subroutines), processors_(processors) {
  add_scope(entry, nullptr, nullptr);
  for (const ir::Value* input : entry.inputs()) set_home(root().value(input), input->ipu.value_or(0));
  while (find_homes(root())) {
  }
  for (const std::unique_ptr<Scope>& scope : scopes_) {
    for (const auto& op : scope->graph->ops()) {
      ipu_count_ = std::max(ipu_count_, op->settings.ipu.value_or(0) + 1);
      if (const Subroutine* called = subroutine(*op))
        ipu_count_ = std::max(ipu_count_, called->nest().ipu_count());
      if (op->is(kind::kIpuCopy))
        ipu_count_ = std::max(ipu_count_, static_cast<int>(op->attributes.integer("from")) + 1);
    }
  }
  for (const ir::Variable& variable : module.variables())
    if (variable.ipu.has_value()) ipu_count_ = std::max(ipu_count_, *variable.ipu + 1);
  if (processors_ != nullptr && !processors_->io_tiles().empty()) ipu_count_ = processors_->count();
}

Processors::Crossing Nest::crossing(const ir::Op& op) const {
  if (processors_ != nullptr) return processors_->crossing(op);
  if (!op.is(kind::kIpuCopy)) return {};
  return {static_cast<int>(op.attributes.integer("from")), static_cast<int>(op.attributes.integer("to"))};
}

const Subroutine* Nest::subroutine(const ir::Op& op) const {
  if (subroutines_ == nullptr || !op.is(kind::kCall)) return nullptr;
  return subroutines_->find(ir::Region(op).body());
}

int Nest::output_home(int output) const {
  const ir::Value* value = root().graph->outputs()[output];
  const int found = home(root(), value);
  return found != kAnywhere ? found : place_of(value);
}

int Nest::place_of(const ir::Value* value) const {
  for (const Scope* scope = &root();;) {
    const ir::Op* op = value->producer();
    if (op == nullptr) {
      if (scope->site == nullptr) return value->ipu.value_or(0);
      const int operand = ir::Region(*scope->site).operand(value->index());
      if (operand < 0) return 0;  // a loop index
      value = scope->site->operand(operand);
      scope = scope->parent;
      continue;
    }
    if (const Subroutine* called = subroutine(*op)) return called->nest().output_home(value->index());
    auto at = scope->called.find(op);
    if (at == scope->called.end()) return op->settings.ipu.value_or(0);
    const ir::Region region(*op);
    if (region.is_carried(value->index())) {
      value = op->operand(value->index());
    } else {
      scope = at->second.front();
      value = scope->graph->outputs()[static_cast<size_t>(region.output(value->index()))];
    }
  }
}

const ir::Graph& Nest::graph_named(const ir::Op& op, const Symbol& symbol) const {
  const ir::Graph* graph = module_.find_graph(symbol.name);
  IPU_CHECK(graph != nullptr, fmt::format("op {} names graph @{}", op.kind(), symbol.name));
  return *graph;
}

Scope* Nest::add_scope(const ir::Graph& graph, const ir::Op* site, Scope* parent) {
  int depth = 0;
  for (Scope* s = parent; s != nullptr; s = s->parent) ++depth;
  IPU_CHECK(depth < kMaxDepth, fmt::format("graph @{} calls itself", graph.name()));
  scopes_.push_back(std::make_unique<Scope>());
  Scope* scope = scopes_.back().get();
  scope->graph = &graph;
  scope->site = site;
  scope->parent = parent;
  scope->number = static_cast<int>(scopes_.size()) - 1;
  // As many values as there are: their homes are found later. Returns the number of the first.
  auto number = [&](size_t values) {
    const int first = static_cast<int>(homes_.size());
    homes_.resize(homes_.size() + values, kAnywhere);
    return first;
  };
  scope->first_input = number(graph.inputs().size());
  for (const auto& op : graph.ops()) {
    poll_interruption();
    const auto id = static_cast<size_t>(op->id());
    if (id >= scope->first_results.size())
      scope->first_results.resize(std::max(id + 1, 2 * scope->first_results.size()), -1);
    scope->first_results[id] = number(static_cast<size_t>(op->result_count()));
    if (op->is(kind::kPipeline) || op->is(kind::kRngContext) || op->is(kind::kWrite))
      throw Error(ErrorCode::kUnsupportedOps,
                  fmt::format("unsupported operation: '{}' cannot be lowered{}", op->kind(),
                              op->is(kind::kPipeline) ? "; run the pass pipeline-to-rings first" : ""))
          .at(ir::user_line(op->location));
    if (!ir::is_region(*op) || subroutine(*op) != nullptr) continue;
    std::vector<Scope*> called;
    for (const ir::Graph* callee : ir::called_graphs(*op))
      called.push_back(add_scope(*callee, op.get(), scope));
    scope->called.emplace(op.get(), std::move(called));
  }
  return scope;
}

bool Nest::set_home(int value, int home) {
  if (home == kAnywhere || homes_[value] == home) return false;
  if (homes_[value] != kAnywhere)
    return false;  // the first home stays; readers elsewhere are found in projection
  homes_[value] = home;
  return true;
}

int Nest::home_of(const Scope& scope, const ir::Op& op) const {
  if (const Processors::Crossing crosses = crossing(op)) return crosses.to;
  if (processors_ != nullptr)
    if (const int io = processors_->io_of(op); io >= 0) return io;
  int inherited = kAnywhere;
  for (int i = 0; i < op.operand_count() && inherited == kAnywhere; ++i)
    if (op.operand(i) != nullptr) inherited = home(scope, op.operand(i));
  if (inherited == kAnywhere && ops::is_replicable(op)) return kAnywhere;
  if (op.settings.ipu.has_value()) return *op.settings.ipu;
  if (inherited != kAnywhere) return inherited;
  if (op.is(kind::kVariableRead) || op.is(kind::kVariableAssign)) {
    const ir::Variable* variable = module_.find_variable(op.attributes.symbol("variable").name);
    return variable != nullptr ? variable->ipu.value_or(0) : 0;
  }
  if (op.is(kind::kRingPush) || op.is(kind::kRingPop)) {
    const ir::Ring* ring = module_.find_ring(op.attributes.symbol("ring").name);
    if (ring != nullptr) return op.is(kind::kRingPush) ? ring->from_ipu : ring->to_ipu;
  }
  return 0;
}

// One sweep over the nest in program order; says whether a carried value or a result got a home only now, so
// that what was computed from it earlier must be looked at again.
bool Nest::find_homes(Scope& scope) {
  bool again = false;
  for (const auto& op : scope.graph->ops()) {
    poll_interruption();
    auto at = scope.called.find(op.get());
    if (const Subroutine* called = subroutine(*op)) {
      for (int i = 0; i < op->result_count(); ++i)
        set_home(scope.value(op->result(i)), called->nest().output_home(i));
      continue;
    }
    if (at == scope.called.end()) {
      int home = home_of(scope, *op);
      for (int i = 0; i < op->result_count(); ++i) set_home(scope.value(op->result(i)), home);
      continue;
    }
    const ir::Region region(*op);
    for (Scope* called : at->second) {
      const std::vector<ir::Value*>& inputs = called->graph->inputs();
      for (int i = region.first_operand(); i < op->operand_count(); ++i)
        set_home(called->value(inputs[region.input(i)]), home(scope, op->operand(i)));
      again |= find_homes(*called);
      const std::vector<ir::Value*>& outputs = called->graph->outputs();
      for (int i = 0; i < op->result_count(); ++i) {
        int produced = home(*called, outputs[region.output(i)]);
        if (region.is_carried(i)) {
          const int input = called->value(inputs[region.input(i)]);
          again |= set_home(input, produced);
          if (produced == kAnywhere) produced = home(input);
        }
        set_home(scope.value(op->result(i)), produced);
      }
    }
  }
  return again;
}

}  // namespace ipu::lowering
