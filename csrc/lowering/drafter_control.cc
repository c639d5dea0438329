// Control on one IPU: loops and branches as flat instructions, and the moves that carry values around and out
// of them.
#include <fmt/core.h>

#include <algorithm>

#include "ir/regions.h"
#include "lowering/drafter.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::lowering {

namespace kind = ir::kind;
using program::Opcode;

void Drafter::emit_scope(const Scope& scope) {
  for (const ir::Value* input : scope.graph->inputs())
    if (place_of(scope, input).buffer >= 0) send_early(scope, input);
  for (const auto& op : scope.graph->ops()) {
    poll_interruption();
    if (ir::is_call(*op)) {
      emit_call(scope, *op);
    } else if (op->is(kind::kLoop)) {
      emit_loop(scope, *op);
    } else if (op->is(kind::kIf)) {
      emit_if(scope, *op);
    } else {
      emit_op(scope, *op);
    }
    for (int i = 0; i < op->result_count(); ++i)
      if (place_of(scope, op->result(i)).buffer >= 0) send_early(scope, op->result(i));
  }
  take_pending(scope, nullptr);
}

// Inputs of a called graph that are not carried lie where the operands of the site lie.
void Drafter::hand_over(const Scope& scope, const ir::Op& op, const Scope& called) {
  const ir::Region region(op);
  for (int i = std::max(region.first_operand(), region.carried()); i < op.operand_count(); ++i) {
    const ir::Value* input = called.graph->inputs()[region.input(i)];
    if (!needed(called, input)) continue;
    View place = ensure(scope, op.operand(i));
    place_of(called, input) = std::move(place);
  }
}

// Inputs lie where each call says; what is returned is moved to where the call wants it.
Draft Drafter::run_subroutine(const Subroutine& subroutine) {
  const Scope& root = nest_.root();
  const int first_output = static_cast<int>(root.graph->inputs().size());
  for (int i : subroutine.inputs(ipu_)) {
    const ir::Value* input = root.graph->inputs()[i];
    View place = new_buffer(spec_of(input->type()), input->name(), program::Storage::kParameter, i);
    place_of(root, input) = std::move(place);
  }
  emit_scope(root);
  for (int i : subroutine.outputs(ipu_)) {
    const ir::Value* output = root.graph->outputs()[i];
    View from = ensure(root, output);
    const View to =
        new_buffer(spec_of(output->type()), output->name(), program::Storage::kParameter, first_output + i);
    draft_.buffers[to.buffer].written = true;
    move(from, to.buffer, -1);
  }
  add(Opcode::kReturn);
  return std::move(draft_);
}

void Drafter::emit_subroutine_call(const Scope& scope, const ir::Op& op, const Subroutine& called) {
  if (!demand_.is_called(scope, op)) return;
  if (called.is_active(ipu_)) {
    std::vector<DraftOperand> operands;
    for (int i : called.inputs(ipu_)) {
      operands.emplace_back();
      static_cast<View&>(operands.back()) = contiguous(scope, op.operand(i));
    }
    std::vector<View> results;
    for (int i : called.outputs(ipu_)) {
      View place = new_buffer(spec_of(op.result(i)->type()), op.result(i)->name());
      results.push_back(place);
      place_of(scope, op.result(i)) = std::move(place);
    }
    DraftStep& step = add(Opcode::kCall, shared_.origin(op));
    step.object = called.numbers[static_cast<size_t>(ipu_)];
    step.operands = std::move(operands);
    step.results = std::move(results);
  }
  for (int i = 0; i < op.result_count(); ++i) {
    if (called.nest().output_home(i) != ipu_ || !needed(scope, op.result(i))) continue;
    const int input = called.input_returned(i), first = called.first_like(i);
    if (input < 0 && first == i) continue;
    View place = input >= 0 ? ensure(scope, op.operand(input)) : place_of(scope, op.result(first));
    place_of(scope, op.result(i)) = std::move(place);
  }
}

void Drafter::emit_call(const Scope& scope, const ir::Op& op) {
  if (const Subroutine* kept = nest_.subroutine(op)) return emit_subroutine_call(scope, op, *kept);
  const Scope& called = *scope.called.at(&op)[0];
  hand_over(scope, op, called);
  if (demand_.is_active(ipu_, called)) emit_scope(called);
  for (int i = 0; i < op.result_count(); ++i) {  // one may be an input, whether anything runs or not
    if (!needed(scope, op.result(i))) continue;
    View place = ensure(called, called.graph->outputs()[i]);
    place_of(scope, op.result(i)) = std::move(place);
  }
}

void Drafter::emit_loop(const Scope& scope, const ir::Op& op) {
  const Scope& body = *scope.called.at(&op)[0];
  if (!demand_.is_active(ipu_, body)) return;
  const ir::Region region(op);
  const int carried = region.carried();
  if (op.attributes.integer("trip") == 0) {
    for (int k = 0; k < carried; ++k) {
      if (!needed(scope, op.result(k))) continue;
      View start = ensure(scope, op.operand(k));
      place_of(scope, op.result(k)) = std::move(start);
    }
    return;
  }
  std::vector<int> buffers(carried, -1);
  for (int k = 0; k < carried; ++k) {
    const ir::Value* input = body.graph->inputs()[region.input(k)];
    if (!needed(body, input)) continue;
    View start = ensure(scope, op.operand(k));
    View place = new_buffer(spec_of(input->type()), input->name());
    move(start, place.buffer, -1);
    buffers[k] = place.buffer;
    place_of(body, input) = std::move(place);
  }
  hand_over(scope, op, body);
  const int counter = depth_++;
  draft_.counters = std::max(draft_.counters, depth_);
  counters_[&body] = counter;
  const int begin = static_cast<int>(draft_.steps.size());
  DraftStep& loop = add(Opcode::kLoop, shared_.origin(op));
  loop.counter = counter;
  loop.trip = op.attributes.integer("trip");
  emit_scope(body);
  const int leave = emit_condition(body, buffers);
  const int end = static_cast<int>(draft_.steps.size());
  DraftStep& last = add(Opcode::kEndLoop);
  last.counter = counter;
  last.target = begin;
  draft_.steps[begin].target = end;
  if (leave >= 0) draft_.steps[leave].target = end + 1;
  --depth_;
  for (int k = 0; k < carried; ++k) {
    if (buffers[k] < 0) continue;
    View place;
    place.buffer = buffers[k];
    place.spec = spec_of(op.result(k)->type());
    place_of(scope, op.result(k)) = std::move(place);
  }
}

int SharedTables::condition_ring(const Scope& scope, const ir::Op& site, int from, int to) {
  auto [at, added] =
      condition_rings.try_emplace({&scope, &site, to}, static_cast<int>(program->rings.size()));
  if (added)
    program->rings.push_back(
        {fmt::format("condition of {}", site.kind()), size_in_bytes(DType::kBool), 2, from, to});
  return at->second;
}

// The condition of `site` as this IPU branches on it: made here, or taken from the IPU that makes it. That one
// sends it to every other IPU that has something in the bodies.
DraftOperand Drafter::condition_of(const Scope& scope, const ir::Op& site, const ir::Value* value,
                                   const std::vector<Scope*>& bodies) {
  const int home = nest_.home(scope, value), origin = shared_.origin(site);
  DraftOperand condition;
  if (home != kAnywhere && home != ipu_) {
    const View here = new_buffer(spec_of(value->type()), value->name());
    DraftStep& step = add(Opcode::kPop, origin);
    step.object = shared_.condition_ring(scope, site, home, ipu_);
    step.results.push_back(here);
    static_cast<View&>(condition) = here;
    return condition;
  }
  static_cast<View&>(condition) = contiguous(scope, value);
  if (home == kAnywhere) return condition;
  for (int ipu = 0; ipu < nest_.ipu_count(); ++ipu) {
    const bool asks = std::any_of(bodies.begin(), bodies.end(),
                                  [&](const Scope* body) { return demand_.is_active(ipu, *body); });
    if (ipu == ipu_ || !asks) continue;
    DraftStep& step = add(Opcode::kPush, origin);
    step.object = shared_.condition_ring(scope, site, ipu_, ipu);
    step.operands.push_back(condition);
  }
  return condition;
}

// The end of an iteration: carried values in place, then, with a run-time condition, the branch out of the
// loop, whose number is returned (-1: none). The condition is of this iteration, so carried values must not
// run over it.
int Drafter::emit_condition(const Scope& body, const std::vector<int>& buffers) {
  const int goes_on = ir::Region(*body.site).condition_output();
  if (goes_on < 0) {
    settle_carried(body, buffers);
    return -1;
  }
  const ir::Value* value = body.graph->outputs()[goes_on];
  DraftOperand condition;
  condition = condition_of(body, *body.site, value, body.parent->called.at(body.site));
  if (std::find(buffers.begin(), buffers.end(), condition.buffer) != buffers.end())
    static_cast<View&>(condition) = materialise(condition, value->name());
  settle_carried(body, buffers);
  DraftStep& test = add(Opcode::kBranchIfNot, shared_.origin(*body.site));
  test.operands.push_back(std::move(condition));
  return static_cast<int>(draft_.steps.size()) - 1;
}

// All outputs of the body become the carried values of the next iteration at the same moment: an output that
// lies in the memory of another carried value is set aside first.
void Drafter::settle_carried(const Scope& body, const std::vector<int>& buffers) {
  const ir::Region region(*body.site);
  auto output = [&](size_t k) { return body.graph->outputs()[region.output(static_cast<int>(k))]; };
  std::vector<View> outputs(buffers.size());
  for (size_t k = 0; k < buffers.size(); ++k)
    if (buffers[k] >= 0) outputs[k] = ensure(body, output(k));
  auto stays = [&](size_t k) {
    return outputs[k].buffer == buffers[k] && outputs[k].byte_offset == 0 &&
           (!outputs[k].spec.layout.is_plain() || outputs[k].spec.is_contiguous());
  };
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (buffers[k] < 0 || stays(k)) continue;
    if (std::find(buffers.begin(), buffers.end(), outputs[k].buffer) == buffers.end()) continue;
    View aside = new_buffer(spec_of(output(k)->type()), output(k)->name());
    move(outputs[k], aside.buffer, -1);
    outputs[k] = std::move(aside);
  }
  for (size_t k = 0; k < buffers.size(); ++k)
    if (buffers[k] >= 0 && !stays(k)) move(outputs[k], buffers[k], -1);
}

void Drafter::emit_if(const Scope& scope, const ir::Op& op) {
  const std::vector<Scope*>& branches = scope.called.at(&op);
  const Scope &then_scope = *branches[0], &else_scope = *branches[1];
  const std::optional<StaticCondition>& condition = demand_.condition(scope, op);
  const ir::Value* asked = op.operand(ir::Region(op).condition_operand());
  if (!demand_.is_active(ipu_, then_scope) && !demand_.is_active(ipu_, else_scope)) {
    if (!condition && nest_.home(scope, asked) == ipu_ && needed(scope, asked))
      condition_of(scope, op, asked, branches);
    return;
  }
  for (const Scope* branch : branches) hand_over(scope, op, *branch);
  if (condition && condition->loop == nullptr) {  // always the same branch
    const Scope& taken = condition->low != 0 ? then_scope : else_scope;
    emit_scope(taken);
    for (int i = 0; i < op.result_count(); ++i) {
      if (!needed(scope, op.result(i))) continue;
      View place = ensure(taken, taken.graph->outputs()[i]);
      place_of(scope, op.result(i)) = std::move(place);
    }
    return;
  }
  DraftOperand value;
  if (!condition) value = condition_of(scope, op, asked, branches);
  const int branch = static_cast<int>(draft_.steps.size());
  DraftStep& test = add(condition ? Opcode::kBranchUnlessCounter : Opcode::kBranchIfNot, shared_.origin(op));
  if (condition) {
    test.counter = counters_.at(condition->loop);
    test.low = condition->low;
    test.high = condition->high;
  } else {
    test.operands.push_back(std::move(value));
  }
  std::vector<View> results(op.result_count());
  for (int i = 0; i < op.result_count(); ++i)
    if (needed(scope, op.result(i)))
      results[i] = new_buffer(spec_of(op.result(i)->type()), op.result(i)->name());
  auto emit_branch = [&](const Scope& called) {
    emit_scope(called);
    for (int i = 0; i < op.result_count(); ++i)
      if (results[i].buffer >= 0) move(ensure(called, called.graph->outputs()[i]), results[i].buffer, -1);
  };
  emit_branch(then_scope);
  const int jump = static_cast<int>(draft_.steps.size());
  add(Opcode::kJump);
  draft_.steps[branch].target = jump + 1;
  emit_branch(else_scope);
  draft_.steps[jump].target = static_cast<int>(draft_.steps.size());
  for (int i = 0; i < op.result_count(); ++i)
    if (results[i].buffer >= 0) place_of(scope, op.result(i)) = results[i];
}

}  // namespace ipu::lowering
