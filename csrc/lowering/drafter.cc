// Single ops on one IPU: views, kernels, streams, variables, and what goes to or comes from elsewhere.
#include "lowering/drafter.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/regions.h"
#include "lowering/kernel_choice.h"
#include "ops/definition/effects.h"
#include "support/error.h"

namespace ipu::lowering {

namespace kind = ir::kind;
using program::Opcode;
using program::Storage;

int SharedTables::constant(const ConstantPtr& data) {
  auto [at, added] = constants.try_emplace(data.get(), static_cast<int>(program->constants.size()));
  if (added) program->constants.push_back(data);
  return at->second;
}

int SharedTables::stream(const ir::Op& op, int ipu) {
  const int number = streams.at(op.attributes.symbol("stream").name);
  placed_streams.resize(program->streams.size(), 0);
  program::Stream& stream = program->streams[number];
  if (placed_streams[number] != 0 && stream.ipu != ipu)
    throw Error(ErrorCode::kUnsupportedOps,
                fmt::format("unsupported stream: @{} is moved on IPU {} and on IPU {}, and has one cursor.\n"
                            "  try:      move it on one of them and copy the value to the other",
                            stream.name, stream.ipu, ipu))
        .at(ir::user_line(op.location));
  placed_streams[number] = 1;
  stream.ipu = ipu;
  return number;
}

int SharedTables::origin(const ir::Op& op) {
  auto [at, added] = origins.try_emplace(&op, static_cast<int>(program->origins.size()));
  if (!added) return at->second;
  program::Origin origin;
  for (int i = 0; i < op.result_count(); ++i) origin.op += (i > 0 ? ", %" : "%") + op.result(i)->name();
  origin.op += (op.result_count() > 0 ? " = " : "") + op.kind();
  if (op.location != nullptr) {
    origin.location = ir::to_string(op.location);
    for (const ir::Location& other : op.location->joined) origin.joined.push_back(ir::to_string(other));
  }
  origin.stage = op.settings.stage.value_or(-1);
  origin.backward = op.settings.context == ir::Context::kBackward;
  program->origins.push_back(std::move(origin));
  return at->second;
}

int SharedTables::copy_ring(const Scope& scope, const ir::Op& copy, Processors::Crossing crosses) {
  auto [at, added] = copy_rings.try_emplace({&scope, &copy}, static_cast<int>(program->rings.size()));
  if (!added) return at->second;
  // I/O tiles store one element while their IPU makes the next.
  int64_t capacity = 2;
  if (!copy.is(kind::kIpuCopy)) capacity = copy.attributes.text("to") == "io" ? 1 : prefetch_depth;
  program->rings.push_back({copy.result()->name(), spec_of(copy.result()->type()).stored_bytes(), capacity,
                            crosses.from, crosses.to});
  return at->second;
}

Draft Drafter::run() {
  emit_scope(nest_.root());
  return std::move(draft_);
}

View Drafter::new_buffer(const TensorSpec& spec, const std::string& name, Storage storage, int index) {
  VirtualBuffer buffer;
  buffer.name = name;
  buffer.bytes = spec.stored_bytes();
  buffer.storage = storage;
  buffer.index = index;
  draft_.buffers.push_back(std::move(buffer));
  View place;
  place.buffer = static_cast<int>(draft_.buffers.size()) - 1;
  place.spec = spec;
  return place;
}

DraftStep& Drafter::add(Opcode opcode, int origin) {
  draft_.steps.emplace_back();
  draft_.steps.back().opcode = opcode;
  draft_.steps.back().origin = origin;
  draft_.steps.back().depth = depth_;
  return draft_.steps.back();
}

int Drafter::variable_buffer(const std::string& name) {
  auto at = variable_buffers_.find(name);
  if (at != variable_buffers_.end()) return at->second;
  const int index = shared_.variables.at(name);
  program::Variable& variable = shared_.program->variables[index];
  View place = new_buffer(variable.spec, name, Storage::kVariable, index);
  draft_.buffers[place.buffer].written = variable.written;
  draft_.buffers[place.buffer].is_remote = variable.remote_buffer >= 0;
  variable_buffers_.emplace(name, place.buffer);
  return place.buffer;
}

void Drafter::move(const View& from, int to, int origin) {
  DraftStep& step = add(Opcode::kKernel, origin);
  step.kernel = "copy";
  DraftOperand operand;
  static_cast<View&>(operand) = from;
  View result;
  result.buffer = to;
  if (!from.spec.layout.is_plain() || from.spec.is_contiguous()) {
    operand.spec = result.spec = flat(from.spec);
    step.is_move = from.byte_offset == 0 && from.spec.stored_bytes() == draft_.buffers[from.buffer].bytes;
    operand.in_place = step.is_move;
  } else {
    result.spec = TensorSpec::plain(from.spec.dtype, from.spec.shape);
  }
  step.operands.push_back(std::move(operand));
  step.results.push_back(std::move(result));
}

View Drafter::materialise(const View& from, const std::string& name) {
  View to = new_buffer(TensorSpec::plain(from.spec.dtype, from.spec.shape), name);
  move(from, to.buffer, -1);
  return to;
}

namespace {
// Readers that take one value for all elements as well as a tensor of them.
bool readers_take_splat(const ir::Value& value) {
  if (value.is_output()) return false;
  for (const ir::Use& use : value.uses()) {
    const ir::Op& user = *use.user;
    const bool starts_loop = ir::is_region(user) && ir::Region(user).is_carried(use.index);
    if (!starts_loop && !user.is(kind::kVariableAssign) && !ops::has_trait(user, ops::kAnyLayout))
      return false;
  }
  return true;
}
}  // namespace

View Drafter::constant_place(const ir::Value* value) {
  ConstantPtr data = value->producer()->attributes.constant("value");
  View place;
  place.spec = spec_of(value->type());
  if (place.spec.layout.is_plain() && readers_take_splat(*value)) {
    auto [at, added] = splats_.try_emplace(data.get());
    if (added) at->second = splat_of(*data);
    if (at->second != nullptr) {
      data = at->second;
      place.spec.strides.assign(place.spec.shape.size(), 0);
    }
  }
  auto [at, added] = constant_buffers_.try_emplace(data.get(), 0);
  if (added)
    at->second = new_buffer(TensorSpec::plain(data->dtype, data->shape), value->name(), Storage::kConstant,
                            shared_.constant(data))
                     .buffer;
  place.buffer = at->second;
  return place;
}

const View& Drafter::ensure(const Scope& scope, const ir::Value* value) {
  View& place = place_of(scope, value);
  if (place.buffer >= 0) return place;
  const ir::Op* op = value->producer();
  if (op == nullptr) {
    IPU_CHECK(scope.is_loop_body() && value->index() == 0,
              fmt::format("%{} of @{} has no place", value->name(), scope.graph->name()));
    View index = new_buffer(spec_of(value->type()), value->name());
    DraftStep& step = add(Opcode::kCounter);
    step.counter = counters_.at(&scope);
    step.results.push_back(index);
    return place_of(scope, value) = index;
  }
  if (op->is(kind::kConstant)) return place_of(scope, value) = constant_place(value);
  std::vector<const ir::Op*>& pending = pending_[&scope];
  auto at = std::find(pending.begin(), pending.end(), op);
  if (at != pending.end()) {
    if (op->is(kind::kRingPop)) {
      const std::string ring = op->attributes.symbol("ring").name;
      take_pending(scope, &ring);
    } else {
      pending.erase(at);
      take(scope, *op);
    }
  }
  IPU_CHECK(place_of(scope, value).buffer >= 0, fmt::format("%{} of @{} is read on IPU {} before it is there",
                                                            value->name(), scope.graph->name(), ipu_));
  return place_of(scope, value);
}

const View& Drafter::contiguous(const Scope& scope, const ir::Value* value) {
  const View& place = ensure(scope, value);
  if (!place.spec.layout.is_plain() || place.spec.is_contiguous()) return place;
  View copy = materialise(place, value->name());
  return place_of(scope, value) = copy;
}

void Drafter::send(const Scope& scope, const ir::Op& copy) {
  DraftOperand operand;
  static_cast<View&>(operand) = contiguous(scope, copy.operand(0));
  DraftStep& step = add(Opcode::kPush, shared_.origin(copy));
  step.object = shared_.copy_ring(scope, copy, nest_.crossing(copy));
  step.operands.push_back(std::move(operand));
}

void Drafter::send_early(const Scope& scope, const ir::Value* value) {
  for (const ir::Use& use : value->uses()) {
    const ir::Op& copy = *use.user;
    const Processors::Crossing crosses = nest_.crossing(copy);
    if (!crosses || crosses.from != ipu_ || crosses.to == ipu_) continue;
    if (!demand_.needs(crosses.to, scope, copy.result())) continue;
    send(scope, copy);
    sent_[&copy].push_back(&scope);
  }
}

void Drafter::take(const Scope& scope, const ir::Op& op) {
  View place = new_buffer(spec_of(op.result()->type()), op.result()->name());
  DraftStep& step = add(Opcode::kPop, shared_.origin(op));
  step.object = op.is(kind::kRingPop) ? shared_.rings.at(op.attributes.symbol("ring").name)
                                      : shared_.copy_ring(scope, op, nest_.crossing(op));
  step.results.push_back(place);
  place_of(scope, op.result()) = place;
}

// Takes over what is pending: all of it, or of one ring.
void Drafter::take_pending(const Scope& scope, const std::string* ring) {
  std::vector<const ir::Op*>& pending = pending_[&scope];
  std::vector<const ir::Op*> now, later;
  for (const ir::Op* op : pending) {
    bool mine = ring == nullptr || (op->is(kind::kRingPop) && op->attributes.symbol("ring").name == *ring);
    (mine ? now : later).push_back(op);
  }
  pending = std::move(later);
  for (const ir::Op* op : now) take(scope, *op);
}

void Drafter::emit_op(const Scope& scope, const ir::Op& op) {
  if (op.is(kind::kConstant)) return;  // made at first use
  if (op.is(kind::kCodeLoad)) return;  // the host's code is always there
  if (op.is(kind::kIoBarrier)) return emit_barrier(scope, op);
  if (const Processors::Crossing crosses = nest_.crossing(op)) {
    const int from = crosses.from, to = crosses.to;
    if (!demand_.needs(to, scope, op.result())) return;
    if (from == to) {
      if (from == ipu_) place_of(scope, op.result()) = ensure(scope, op.operand(0));
      return;
    }
    const std::vector<const Scope*>& sent = sent_[&op];
    if (from == ipu_ && std::find(sent.begin(), sent.end(), &scope) == sent.end()) send(scope, op);
    if (to == ipu_) pending_[&scope].push_back(&op);
    return;
  }
  const int home = nest_.home_of(scope, op);
  if (home != kAnywhere && home != ipu_) return;
  bool is_needed = false;
  for (int i = 0; i < op.result_count(); ++i) is_needed |= needed(scope, op.result(i));
  const ops::OpDef* def = ops::definition(op);
  const bool has_effects = ops::has_side_effects(op);
  if (op.result_count() > 0 && !is_needed) return;
  if (op.result_count() == 0 && (!has_effects || (home == kAnywhere && ipu_ != 0))) return;

  const int origin = shared_.origin(op);
  if (op.is(kind::kRingPop)) {
    pending_[&scope].push_back(&op);
    return;
  }
  if (op.is(kind::kRingPush)) {
    const std::string& ring = op.attributes.symbol("ring").name;
    DraftOperand operand;
    static_cast<View&>(operand) = contiguous(scope, op.operand(0));
    take_pending(scope, &ring);
    DraftStep& step = add(Opcode::kPush, origin);
    step.object = shared_.rings.at(ring);
    step.operands.push_back(std::move(operand));
    return;
  }
  if (op.is(kind::kReplicaIndex)) {
    View place = new_buffer(spec_of(op.result()->type()), op.result()->name());
    add(Opcode::kReplica, origin).results.push_back(place);
    place_of(scope, op.result()) = place;
    return;
  }
  if (op.is(kind::kHostLoad)) {
    const int stream = shared_.stream(op, ipu_);
    const program::Stream& from = shared_.program->streams[stream];
    Storage storage = from.host_dtype == from.spec.dtype ? Storage::kExternal : Storage::kArena;
    TensorSpec spec = spec_of(op.result()->type());
    View place = new_buffer(spec, op.result()->name(), storage);
    DraftStep& step = add(Opcode::kStreamLoad, origin);
    step.object = stream;
    step.results.push_back(place);
    place_of(scope, op.result()) = place;
    return;
  }
  if (op.is(kind::kHostStore)) {
    DraftOperand operand;
    static_cast<View&>(operand) = contiguous(scope, op.operand(0));
    const int stream = shared_.stream(op, ipu_);
    DraftStep& step = add(Opcode::kStreamStore, origin);
    step.object = stream;
    step.operands.push_back(std::move(operand));
    return;
  }
  if (op.is(kind::kRemoteLoad) || op.is(kind::kRemoteStore)) return emit_remote(scope, op);
  if (op.is(kind::kVariableRead)) {
    const std::string& name = op.attributes.symbol("variable").name;
    const int buffer = variable_buffer(name);
    View variable;
    variable.buffer = buffer;
    variable.spec = spec_of(op.result()->type());
    if (draft_.buffers[buffer].written) {
      View value = new_buffer(variable.spec, op.result()->name());
      move(variable, value.buffer, origin);
      variable = value;
    }
    place_of(scope, op.result()) = variable;
    return;
  }
  if (op.is(kind::kVariableAssign)) {
    View value = ensure(scope, op.operand(0));
    move(value, variable_buffer(op.attributes.symbol("variable").name), origin);
    return;
  }
  if (def != nullptr && def->collective) return emit_collective(scope, op);
  if (op.operand_count() > 0 && op.operand(0) != nullptr && op.result_count() == 1) {
    std::optional<View> view = view_of(op, ensure(scope, op.operand(0)));
    const ir::ViewRule* rule = ops::view_rule(op);
    if (!view && rule != nullptr && (rule->keeps_order || changes_layout_alone(op)))
      view = view_of(op, contiguous(scope, op.operand(0)));
    if (view) {
      place_of(scope, op.result()) = *view;
      return;
    }
  }
  emit_kernel(scope, op);
}

namespace {
// One element seen everywhere, in any layout: elementwise kernels take it as the 0-d value it is.
View as_scalar(View place) {
  const TensorSpec& spec = place.spec;
  if (!spec.layout.is_plain() || spec.is_contiguous() || element_count(spec.shape) == 0) return place;
  if (std::any_of(spec.strides.begin(), spec.strides.end(), [](int64_t s) { return s != 0; })) return place;
  place.spec = TensorSpec::plain(spec.dtype, {});
  return place;
}
}  // namespace

void Drafter::emit_kernel(const Scope& scope, const ir::Op& op) {
  int operand_count = op.operand_count();
  while (operand_count > 0 && op.operand(operand_count - 1) == nullptr) --operand_count;
  std::vector<TensorSpec> operand_specs(operand_count), result_specs;
  for (int i = 0; i < op.result_count(); ++i) result_specs.push_back(spec_of(op.result(i)->type()));
  bool strided = false;
  const bool any_layout = ops::has_trait(op, ops::kAnyLayout);
  auto operand_place = [&](int i) {
    View place = ensure(scope, op.operand(i));
    return any_layout ? as_scalar(std::move(place)) : place;
  };
  for (int i = 0; i < operand_count; ++i) {
    if (op.operand(i) == nullptr) continue;
    operand_specs[i] = operand_place(i).spec;
    strided |= operand_specs[i].layout.is_plain() && !operand_specs[i].is_contiguous();
  }
  std::optional<ops::KernelChoice> choice = ops::choose_kernel(op, operand_specs, result_specs);
  // One operand after the other is laid out in order until a kernel takes them.
  for (int i = 0; i < operand_count && strided && !choice; ++i) {
    if (op.operand(i) == nullptr || !operand_specs[i].layout.is_plain() || operand_specs[i].is_contiguous())
      continue;
    operand_specs[i] = contiguous(scope, op.operand(i)).spec;
    choice = ops::choose_kernel(op, operand_specs, result_specs);
  }
  if (!choice) throw_no_kernel(op);
  std::vector<DraftOperand> operands(operand_count);
  for (int i = 0; i < operand_count; ++i) {
    if (op.operand(i) == nullptr) continue;
    static_cast<View&>(operands[i]) = operand_place(i);
    operands[i].in_place = may_overwrite(op, *choice, i, operands[i].spec, result_specs);
  }
  std::vector<View> results;
  for (int i = 0; i < op.result_count(); ++i)
    results.push_back(new_buffer(result_specs[i], op.result(i)->name()));
  DraftStep& step = add(Opcode::kKernel, shared_.origin(op));
  step.kernel = choice->id;
  step.attributes = std::move(choice->attributes);
  step.operands = std::move(operands);
  step.results = results;
  for (int i = 0; i < op.result_count(); ++i) place_of(scope, op.result(i)) = results[i];
}

}  // namespace ipu::lowering
