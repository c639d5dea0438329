#include "lowering/demand.h"

#include <fmt/core.h>

#include "ir/regions.h"
#include "ir/subroutine.h"
#include "lowering/subroutine.h"
#include "ops/definition/effects.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::lowering {

namespace kind = ir::kind;
namespace {

// A load that moves no cursor: nobody misses it where nobody reads its result.
bool is_constant_load(const ir::Module& module, const ir::Op& op) {
  if (!op.is(kind::kHostLoad)) return false;
  const ir::Stream* stream = module.find_stream(op.attributes.symbol("stream").name);
  return stream != nullptr && stream->constant;
}

}  // namespace

Demand::Demand(const Nest& nest) : nest_(nest), words_((nest.ipu_count() + 63) / 64) {
  values_.assign(static_cast<size_t>(nest.value_count()) * words_, 0);
  scopes_.assign(nest.scopes().size() * words_, 0);
  for (const std::unique_ptr<Scope>& scope : nest.scopes())
    for (const auto& [site, called] : scope->called)
      if (site->is(kind::kIf)) conditions_[{scope.get(), site}] = nest.static_condition(*scope, *site);
  for (const std::unique_ptr<Scope>& scope : nest.scopes()) {
    for (const auto& op : scope->graph->ops()) {
      if (scope->called.contains(op.get()) || op->is(kind::kVariableRead) || op->is(kind::kIpuCopy) ||
          is_constant_load(nest.module(), *op))
        continue;
      if (const Subroutine* called = nest.subroutine(*op)) {
        if (!called->demand().has_effects()) continue;
        has_effects_ = true;
        want_call(*scope, *op, *called);
        continue;
      }
      if (!ops::has_side_effects(*op)) continue;
      has_effects_ = true;
      if (op->is(kind::kIoBarrier)) {
        meet(*scope);
        continue;
      }
      int ipu = nest.home_of(*scope, *op);
      if (ipu == kAnywhere) ipu = 0;
      activate(*scope, ipu);
      for (int i = 0; i < op->operand_count(); ++i)
        if (op->operand(i) != nullptr) want(*scope, op->operand(i), ipu, op.get());
      for (int i = 0; i < op->result_count(); ++i) want(*scope, op->result(i), ipu, op.get());
    }
  }
  if (ir::is_subroutine(*nest.root().graph)) {
    const std::vector<ir::Value*>& outputs = nest.root().graph->outputs();
    for (int i = 0; i < static_cast<int>(outputs.size()); ++i)
      want(nest.root(), outputs[i], nest.output_home(i), nullptr);
  }
  while (!work_.empty()) {
    poll_interruption();
    Want next = work_.back();
    work_.pop_back();
    follow(next);
  }
}

void Demand::want(const Scope& scope, const ir::Value* value, int ipu, const ir::Op* reader) {
  const int home = nest_.home(scope, value);
  if (home != kAnywhere && home != ipu) {
    Error error(
        ErrorCode::kInternal,
        fmt::format("internal error: %{} of graph @{} is on IPU {} and read on IPU {}{} without an ipu_copy. "
                    "Run the pass insert-ipu-copies before lowering.",
                    value->name(), scope.graph->name(), home, ipu,
                    reader != nullptr ? fmt::format(" by '{}'", reader->kind()) : ""));
    if (reader != nullptr) error.at(ir::user_line(reader->location));
    throw error;
  }
  if (mark(values_, scope.value(value), ipu)) work_.push_back({&scope, value, ipu});
}

// At an io_barrier.
void Demand::meet(const Scope& scope) {
  if (nest_.processors() == nullptr) return;
  for (const Processors::Barrier& meeting : nest_.processors()->barriers())
    for (const int processor : {meeting.ipu, meeting.io}) activate(scope, processor);
}

void Demand::activate(const Scope& scope, int ipu) {
  for (const Scope* s = &scope; s != nullptr && mark(scopes_, s->number, ipu); s = s->parent) {
    if (s->site == nullptr) continue;
    const ir::Region region(*s->site);
    const int asked = region.condition_operand(), goes_on = region.condition_output();
    if (asked >= 0 && !conditions_.at({s->parent, s->site}))
      ask(*s->parent, s->site->operand(asked), ipu, s->site);
    if (goes_on >= 0) ask(*s, s->graph->outputs()[goes_on], ipu, s->site);
  }
}

// A condition that another IPU makes is sent from there (Drafter::condition_of), which takes the same way
// through the program.
void Demand::ask(const Scope& scope, const ir::Value* condition, int ipu, const ir::Op* site) {
  const int home = nest_.home(scope, condition);
  const int maker = home == kAnywhere ? ipu : home;
  want(scope, condition, maker, site);
  if (maker != ipu) activate(scope, maker);
}

void Demand::follow_input(const Scope& scope, const ir::Value* input, int ipu) {
  if (scope.site == nullptr) return;  // what a call hands over
  const ir::Op& site = *scope.site;
  const ir::Region region(site);
  if (region.repeats()) activate(scope, ipu);
  if (input->index() == region.index_input()) return;
  const int operand = region.operand(input->index());
  if (region.is_carried(operand)) want(scope, scope.graph->outputs()[region.output(operand)], ipu, &site);
  want(*scope.parent, site.operand(operand), ipu, &site);
}

// All of a subroutine runs, on all its IPUs, whichever of its results is read.
void Demand::want_call(const Scope& scope, const ir::Op& op, const Subroutine& called) {
  if (!called_.insert({&scope, &op}).second) return;
  for (int ipu = 0; ipu < called.nest().ipu_count(); ++ipu) {
    if (called.is_active(ipu)) activate(scope, ipu);
    for (int input : called.inputs(ipu)) want(scope, op.operand(input), ipu, &op);
  }
  for (int i = 0; i < op.result_count(); ++i) want(scope, op.result(i), called.nest().output_home(i), &op);
}

void Demand::follow(const Want& w) {
  const ir::Op* op = w.value->producer();
  if (op == nullptr) return follow_input(*w.scope, w.value, w.ipu);
  activate(*w.scope, w.ipu);
  auto at = w.scope->called.find(op);
  if (at != w.scope->called.end()) {
    const ir::Region region(*op);
    const int result = w.value->index();
    for (const Scope* called : at->second) {
      if (region.is_carried(result)) {
        want(*called, called->graph->inputs()[region.input(result)], w.ipu, op);
        continue;
      }
      if (op->is(kind::kIf)) activate(*called, w.ipu);
      want(*called, called->graph->outputs()[region.output(result)], w.ipu, op);
    }
    return;
  }
  if (const Subroutine* called = nest_.subroutine(*op)) return want_call(*w.scope, *op, *called);
  if (const Processors::Crossing crosses = nest_.crossing(*op)) {
    activate(*w.scope, crosses.from);
    want(*w.scope, op->operand(0), crosses.from, op);
    return;
  }
  for (int i = 0; i < op->operand_count(); ++i)
    if (op->operand(i) != nullptr) want(*w.scope, op->operand(i), w.ipu, op);
}

}  // namespace ipu::lowering
