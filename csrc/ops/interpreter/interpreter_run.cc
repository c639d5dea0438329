// Runs graphs op by op, all replicas together. Defined ops go through their reference; the structural ones of
// ir/structure.h are here.
#include "ops/interpreter/interpreter_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/regions.h"
#include "ir/replicas.h"
#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_def.h"
#include "support/error.h"
#include "support/interruption.h"
#include "support/philox.h"

namespace ipu::ops {
namespace {

[[noreturn]] void fail(const ir::Op& op, const std::string& what) {
  throw Error(ErrorCode::kExecution,
              fmt::format("{}\n  in: {} of graph @{}", what, op.kind(), op.graph()->name()))
      .at(ir::user_line(op.location));
}

std::string names_of(const ReplicaList& replicas) { return fmt::format("{}", fmt::join(replicas, ", ")); }

// The values of `from` at the replicas listed.
void merge(ReplicaValues& to, const ReplicaValues& from, const ReplicaList& replicas) {
  to.resize(from.size());
  for (int64_t r : replicas) to[static_cast<size_t>(r)] = from[static_cast<size_t>(r)];
}

// What a write leaves in its target.
TensorPtr written(const ir::Op& op, const std::vector<TensorPtr>& operands) {
  if (!op.attributes.has("sizes")) return operands[1];
  auto target = std::make_shared<ReferenceTensor>(*operands[0]);
  const std::vector<int64_t>&starts = op.attributes.integers("starts"),
        &sizes = op.attributes.integers("sizes"), &steps = op.attributes.integers("steps");
  const Strides strides = contiguous_strides(target->type.shape), source = contiguous_strides(sizes);
  for (size_t i = 0; i < operands[1]->values.size(); ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      at += (starts[d] + static_cast<int64_t>(i) / source[d] % sizes[d] * steps[d]) * strides[d];
    target->values[static_cast<size_t>(at)] = operands[1]->values[i];
  }
  return target;
}

}  // namespace

void settle(ReferenceTensor& tensor, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kNative || !is_floating_point(tensor.type.dtype)) round_to(tensor);
}

InterpreterRun::InterpreterRun(Interpreter& state) : state_(state), module_(state.module_) {
  for (const ir::Variable& variable : module_.variables())
    if (!variable.remote_buffer.empty())
      remote_variables_[{variable.remote_buffer, variable.remote_entry}] = &variable;
}

std::vector<ReplicaValues> InterpreterRun::graph(const ir::Graph& graph, std::vector<ReplicaValues> inputs,
                                                 const ReplicaList& active,
                                                 std::vector<ReplicaValues>* final_inputs) {
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kExecution, fmt::format("input count mismatch: graph @{} takes {} inputs, not {}.",
                                                   graph.name(), graph.inputs().size(), inputs.size()));
  Frame frame;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Value* input = graph.inputs()[i];
    const ir::Type& given = inputs[i][static_cast<size_t>(active[0])]->type;
    if (given.shape != input->type().shape || given.dtype != input->type().dtype)
      throw Error(ErrorCode::kExecution,
                  fmt::format("input mismatch: %{} of graph @{} is {}, not {}.", input->name(), graph.name(),
                              ir::to_string(input->type()), ir::to_string(given)));
    frame.define(input, std::move(inputs[i]));
  }
  for (const auto& op : graph.ops()) {
    poll_interruption();
    run(*op, frame, active);
  }
  std::vector<ReplicaValues> outputs;
  for (const ir::Value* value : graph.outputs()) outputs.push_back(frame.read(value));
  if (final_inputs != nullptr)
    for (const ir::Value* value : graph.inputs()) final_inputs->push_back(frame.read(value));
  return outputs;
}

void InterpreterRun::run(const ir::Op& op, Frame& frame, const ReplicaList& active) {
  const int in_place = in_place_operand(op);
  if (in_place >= 0 && view_rule(op) != nullptr) {
    frame.define_view(op);
    if (state_.on_value && active[0] == 0) state_.on_value(op, 0, *frame.read(op.result())[0]);
    return;
  }
  std::vector<ReplicaValues> operands;
  for (int i = 0; i < op.operand_count(); ++i)
    operands.push_back(op.operand(i) == nullptr ? ReplicaValues(static_cast<size_t>(state_.replicas()))
                                                : frame.read(op.operand(i)));
  const OpDef* def = definition(op);
  std::vector<ReplicaValues> results = ir::is_structural(op) ? structural(op, operands, frame, active)
                                       : def != nullptr && def->collective ? collective(op, operands, active)
                                       : def != nullptr && def->expand     ? expanded(op, operands, active)
                                                                           : defined(op, operands, active);
  IPU_CHECK(static_cast<int>(results.size()) == op.result_count(),
            fmt::format("'{}' gave another number of results", op.kind()));
  for (int i = 0; i < op.result_count(); ++i) {
    ReplicaValues& result = results[static_cast<size_t>(i)];
    if (state_.on_value && active[0] == 0) state_.on_value(op, i, *result[0]);
    if (i == 0 && in_place >= 0) {
      frame.write(op, op.operand(in_place), result, active);
      frame.define_same(op.result(), op.operand(in_place));
    } else {
      frame.define(op.result(i), std::move(result));
    }
  }
}

std::vector<ReplicaValues> InterpreterRun::defined(const ir::Op& op,
                                                   const std::vector<ReplicaValues>& operands,
                                                   const ReplicaList& active) {
  std::vector<ReplicaValues> results(static_cast<size_t>(op.result_count()),
                                     ReplicaValues(static_cast<size_t>(state_.replicas())));
  for (int64_t r : active) {
    std::vector<const ReferenceTensor*> pointers;
    for (const ReplicaValues& operand : operands) pointers.push_back(operand[static_cast<size_t>(r)].get());
    std::vector<ReferenceTensor> own = interpret_op(op, pointers, state_.arithmetic_, r);
    for (size_t i = 0; i < own.size(); ++i)
      results[i][static_cast<size_t>(r)] = std::make_shared<ReferenceTensor>(std::move(own[i]));
  }
  return results;
}

std::vector<ReplicaValues> InterpreterRun::collective(const ir::Op& op,
                                                      const std::vector<ReplicaValues>& operands,
                                                      const ReplicaList& active) {
  const OpDef& def = *definition(op);
  const Attributes attributes = with_defaults(def, op.attributes);
  const ReplicaGrouping grouping{attributes.integer("group_stride"), attributes.integer("group_size"), {}};
  if (std::string problem = grouping.problem(state_.replicas()); !problem.empty())
    fail(op, fmt::format("group does not fit: a group {}.", problem));
  std::vector<ReplicaValues> results(static_cast<size_t>(op.result_count()),
                                     ReplicaValues(static_cast<size_t>(state_.replicas())));
  for (const ReplicaList& group : grouping.members(state_.replicas())) {
    ReplicaList present;
    std::set_intersection(group.begin(), group.end(), active.begin(), active.end(),
                          std::back_inserter(present));
    if (present.empty()) continue;
    if (present != group)
      fail(op, fmt::format("replicas do not meet: of the group of replicas {} only {} reach this op; "
                           "the others took another branch or left the loop.",
                           names_of(group), names_of(present)));
    std::vector<std::vector<ReferenceTensor>> made(group.size());
    CollectiveCall call{attributes, {}, {}};
    for (size_t m = 0; m < group.size(); ++m) {
      call.operands.emplace_back();
      for (const ReplicaValues& operand : operands)
        call.operands.back().push_back(operand[static_cast<size_t>(group[m])].get());
      for (int i = 0; i < op.result_count(); ++i)
        made[m].push_back(ReferenceTensor::zeros(op.result(i)->type()));
      call.results.emplace_back();
      for (ReferenceTensor& result : made[m]) call.results.back().push_back(&result);
    }
    def.collective(call);
    for (size_t m = 0; m < group.size(); ++m)
      for (size_t i = 0; i < made[m].size(); ++i) {
        settle(made[m][i], state_.arithmetic_);
        results[i][static_cast<size_t>(group[m])] = std::make_shared<ReferenceTensor>(std::move(made[m][i]));
      }
  }
  return results;
}

std::vector<ReplicaValues> InterpreterRun::expanded(const ir::Op& op,
                                                    const std::vector<ReplicaValues>& operands,
                                                    const ReplicaList& active) {
  std::unique_ptr<ir::Module>& module = expansions_[&op];
  if (module == nullptr) {
    module = std::make_unique<ir::Module>();
    ir::Graph* graph = module->add_graph(op.kind());
    std::vector<ir::Value*> inputs;
    std::vector<ir::Type> types;
    for (int i = 0; i < op.operand_count(); ++i) inputs.push_back(graph->add_input(op.operand(i)->type()));
    for (int i = 0; i < op.result_count(); ++i) types.push_back(op.result(i)->type());
    ir::Op* copy = graph->create(op.kind(), inputs, op.attributes, types);
    ir::Builder builder(graph, copy);
    for (ir::Value* result : definition(op)->expand(builder, *copy)) graph->append_output(result);
    graph->erase(copy);
  }
  struct Unwatched {  // whoever watches knows the op, not what it stands for
    explicit Unwatched(Interpreter& state) : state(state), watcher(std::exchange(state.on_value, nullptr)) {}
    ~Unwatched() { state.on_value = std::move(watcher); }
    Interpreter& state;
    decltype(Interpreter::on_value) watcher;
  } unwatched(state_);
  return graph(*module->graphs().front(), operands, active);
}

// --- control

const ir::Graph& InterpreterRun::named(const ir::Op& op, const Symbol& symbol) const {
  const ir::Graph* graph = module_.find_graph(symbol.name);
  if (graph == nullptr) fail(op, fmt::format("unknown graph: @{} does not exist.", symbol.name));
  return *graph;
}

namespace {
ReplicaValues index_values(int64_t value, int64_t replicas) {
  return ReplicaValues(static_cast<size_t>(replicas), std::make_shared<ReferenceTensor>(ReferenceTensor{
                                                          {DType::kI32, {}}, {static_cast<double>(value)}}));
}
}  // namespace

std::vector<ReplicaValues> InterpreterRun::call(const ir::Op& op, const std::vector<ReplicaValues>& operands,
                                                Frame& frame, const ReplicaList& active) {
  std::vector<ReplicaValues> final_inputs;
  std::vector<ReplicaValues> results =
      graph(named(op, op.attributes.symbol("callee")), operands, active, &final_inputs);
  for (int64_t i : op.attributes.integers("modified", {}))
    frame.write(op, op.operand(static_cast<int>(i)), final_inputs[static_cast<size_t>(i)], active);
  results.resize(static_cast<size_t>(op.result_count()));  // outputs may have been appended after the call
  return results;
}

// Marked invariants (authored form) keep what an iteration wrote to them; all others start anew in each.
std::vector<ReplicaValues> InterpreterRun::loop(const ir::Op& op, std::vector<ReplicaValues> operands,
                                                Frame& frame, const ReplicaList& active) {
  const ir::Graph& body = named(op, op.attributes.symbol("body"));
  const ir::Region region(op);
  const std::vector<int64_t> modified = op.attributes.integers("modified", {});
  ReplicaList running = active;
  for (int64_t i = 0, trip = op.attributes.integer("trip"); i < trip && !running.empty(); ++i) {
    std::vector<ReplicaValues> inputs{index_values(i, state_.replicas())};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    counters_.push_back(i);
    std::vector<ReplicaValues> final_inputs;
    std::vector<ReplicaValues> outputs = graph(body, std::move(inputs), running, &final_inputs);
    counters_.pop_back();
    for (int k = 0; k < region.carried(); ++k)
      merge(operands[static_cast<size_t>(k)], outputs[static_cast<size_t>(region.output(k))], running);
    for (int64_t k : modified)
      merge(operands[static_cast<size_t>(k)],
            final_inputs[static_cast<size_t>(region.input(static_cast<int>(k)))], running);
    if (region.condition_output() == 0)
      std::erase_if(running, [&](int64_t r) { return outputs[0][static_cast<size_t>(r)]->values[0] == 0; });
  }
  for (int64_t k : modified)
    frame.write(op, op.operand(static_cast<int>(k)), operands[static_cast<size_t>(k)], active);
  operands.resize(static_cast<size_t>(region.carried()));
  return operands;
}

std::vector<ReplicaValues> InterpreterRun::branch(const ir::Op& op,
                                                  const std::vector<ReplicaValues>& operands, Frame& frame,
                                                  const ReplicaList& active) {
  std::vector<ReplicaValues> results(static_cast<size_t>(op.result_count()));
  const ir::Region region(op);
  for (const char* side : {"then", "else"}) {
    ReplicaList here;
    for (int64_t r : active)
      if ((operands[0][static_cast<size_t>(r)]->values[0] != 0) == (side[0] == 't')) here.push_back(r);
    if (here.empty()) continue;
    std::vector<ReplicaValues> final_inputs;
    const std::vector<ReplicaValues> own =
        graph(named(op, op.attributes.symbol(side)),
              {operands.begin() + region.first_operand(), operands.end()}, here, &final_inputs);
    for (size_t i = 0; i < own.size(); ++i) merge(results[i], own[i], here);
    for (int64_t i : op.attributes.integers("modified", {}))
      frame.write(op, op.operand(static_cast<int>(i)),
                  final_inputs[static_cast<size_t>(region.input(static_cast<int>(i)))], here);
  }
  return results;
}

// Each micro-batch runs the stages in order; a stage sees what all earlier stages of the micro-batch handed
// on. The schedule changes when stages run, never what they compute.
std::vector<ReplicaValues> InterpreterRun::pipeline(const ir::Op& op,
                                                    const std::vector<ReplicaValues>& operands,
                                                    const ReplicaList& active) {
  const ptrdiff_t carried_count = ir::Region(op).carried();
  std::vector<ReplicaValues> carried(operands.begin(), operands.begin() + carried_count);
  for (int64_t i = 0, count = op.attributes.integer("micro_batches"); i < count; ++i) {
    std::vector<ReplicaValues> flows;
    counters_.push_back(i);
    for (const Symbol& stage : op.attributes.symbols("stages")) {
      std::vector<ReplicaValues> inputs{index_values(i, state_.replicas())};
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      inputs.insert(inputs.end(), operands.begin() + carried_count, operands.end());
      inputs.insert(inputs.end(), flows.begin(), flows.end());
      std::vector<ReplicaValues> outputs = graph(named(op, stage), std::move(inputs), active);
      carried.assign(outputs.begin(), outputs.begin() + carried_count);
      flows.insert(flows.end(), outputs.begin() + carried_count, outputs.end());
    }
    counters_.pop_back();
  }
  return carried;
}

std::vector<ReplicaValues> InterpreterRun::structural(const ir::Op& op,
                                                      const std::vector<ReplicaValues>& operands,
                                                      Frame& frame, const ReplicaList& active) {
  namespace kind = ir::kind;
  if (ir::is_call(op)) return call(op, operands, frame, active);
  if (op.is(kind::kLoop)) return loop(op, operands, frame, active);
  if (op.is(kind::kPipeline)) return pipeline(op, operands, active);
  if (op.is(kind::kIf)) return branch(op, operands, frame, active);
  if (op.is(kind::kIpuCopy)) return {operands[0]};
  if (op.is(kind::kIoBarrier)) return {};
  if (op.is(kind::kCodeLoad)) {
    named(op, op.attributes.symbol("graph"));
    return {};
  }
  ReplicaValues result(static_cast<size_t>(state_.replicas()));
  if (op.is(kind::kConstant)) {
    std::fill(result.begin(), result.end(),
              std::make_shared<const ReferenceTensor>(
                  ReferenceTensor::from_constant(*op.attributes.constant("value"))));
    return {result};
  }
  for (int64_t r : active) {
    std::vector<TensorPtr> own;
    for (const ReplicaValues& operand : operands) own.push_back(operand[static_cast<size_t>(r)]);
    if (op.is(kind::kWrite))
      result[static_cast<size_t>(r)] = written(op, own);
    else
      result[static_cast<size_t>(r)] = transfer(op, own, r);
  }
  if (op.is(kind::kWrite)) frame.write(op, op.operand(0), result, active);
  if (op.result_count() == 0) return {};
  return {result};
}

// --- tables

TensorPtr InterpreterRun::transfer(const ir::Op& op, const std::vector<TensorPtr>& operands,
                                   int64_t replica) {
  namespace kind = ir::kind;
  ReplicaState& own = state_.replica(replica);
  if (op.is(kind::kVariableRead)) return read_variable(op, replica);
  if (op.is(kind::kVariableAssign)) {
    own.variables[op.attributes.symbol("variable").name] = *operands[0];
    return nullptr;
  }
  if (op.is(kind::kHostLoad)) {
    const std::string& name = op.attributes.symbol("stream").name;
    const ir::Stream* stream = module_.find_stream(name);
    return take(op, own.streams[name], stream != nullptr && stream->constant, "stream", name);
  }
  if (op.is(kind::kHostStore)) {
    own.streams[op.attributes.symbol("stream").name].push_back(*operands[0]);
    return nullptr;
  }
  if (op.is(kind::kRingPush)) {
    push(op, *operands[0], replica);
    return nullptr;
  }
  if (op.is(kind::kRingPop)) {
    const std::string& name = op.attributes.symbol("ring").name;
    return take(op, own.rings[name], false, "ring", name);
  }
  if (op.is(kind::kRemoteLoad))
    return std::make_shared<ReferenceTensor>(
        remote_entry(op, operands.empty() ? nullptr : operands[0], replica, true));
  if (op.is(kind::kRemoteStore)) {
    remote_entry(op, operands.size() < 2 ? nullptr : operands[1], replica, false) = *operands[0];
    return nullptr;
  }
  if (op.is(kind::kRngContext)) return rng_context(op, replica);
  if (op.is(kind::kReplicaIndex))
    return std::make_shared<ReferenceTensor>(
        ReferenceTensor{op.result()->type(), {static_cast<double>(replica)}});
  fail(op, fmt::format("unknown operation: structural op '{}' cannot run.", op.kind()));
}

TensorPtr InterpreterRun::take(const ir::Op& op, std::deque<ReferenceTensor>& queue, bool keep,
                               const char* what, const std::string& name) {
  if (queue.empty()) fail(op, fmt::format("{} is empty: @{} has no element left.", what, name));
  ReferenceTensor element = queue.front();
  if (!keep) queue.pop_front();
  const ir::Type& type = op.result()->type();
  if (element.type.shape != type.shape)
    fail(op, fmt::format("{} mismatch: @{} holds {}, not {}.", what, name, ir::to_string(element.type),
                         ir::to_string(type)));
  element.type.dtype = type.dtype;  // i64 is narrowed at this edge
  settle(element, state_.arithmetic_);
  return std::make_shared<ReferenceTensor>(std::move(element));
}

void InterpreterRun::push(const ir::Op& op, const ReferenceTensor& value, int64_t replica) {
  const std::string& name = op.attributes.symbol("ring").name;
  std::deque<ReferenceTensor>& queue = state_.replica(replica).rings[name];
  const ir::Ring* ring = module_.find_ring(name);
  if (ring != nullptr && static_cast<int64_t>(queue.size()) >= ring->capacity)
    fail(op, fmt::format("ring is full: @{} holds its {} elements.", name, ring->capacity));
  queue.push_back(value);
}

ReferenceTensor& InterpreterRun::remote_entry(const ir::Op& op, const TensorPtr& offset, int64_t replica,
                                              bool is_read) {
  const std::string& name = op.attributes.symbol("buffer").name;
  const ir::RemoteBuffer* buffer = module_.find_remote_buffer(name);
  if (buffer == nullptr) fail(op, fmt::format("unknown remote buffer: @{} does not exist.", name));
  const int64_t entry =
      offset != nullptr ? static_cast<int64_t>(offset->values[0]) : op.attributes.integer("entry", 0);
  if (entry < 0 || entry >= buffer->entries)
    fail(op, fmt::format("remote buffer entry out of range: {} of @{}, which has {} entries.", entry, name,
                         buffer->entries));
  if (auto at = remote_variables_.find({name, entry}); at != remote_variables_.end()) {
    const ir::Variable& variable = *at->second;
    if (ReferenceTensor* value = state_.find_value(replica, variable)) return *value;
    if (is_read)
      fail(op,
           fmt::format("variable has no value: @{}, entry {} of @{}, was neither uploaded nor initialised.",
                       variable.name, entry, name));
    return state_.replica(replica).variables[variable.name] = ReferenceTensor::zeros(buffer->type);
  }
  std::vector<ReferenceTensor>& entries = state_.replica(replica).remote_buffers[name];
  while (static_cast<int64_t>(entries.size()) < buffer->entries)
    entries.push_back(ReferenceTensor::zeros(buffer->type));
  return entries[static_cast<size_t>(entry)];
}

TensorPtr InterpreterRun::read_variable(const ir::Op& op, int64_t replica) {
  const std::string& name = op.attributes.symbol("variable").name;
  const ir::Variable* variable = module_.find_variable(name);
  const ReferenceTensor* value = variable == nullptr ? nullptr : state_.find_value(replica, *variable);
  if (value == nullptr)
    fail(op, fmt::format("variable has no value: @{} was neither uploaded nor initialised.", name));
  return std::make_shared<ReferenceTensor>(*value);
}

// Two words from the seed, the replica, the path of the op and the counters of the loops around it.
TensorPtr InterpreterRun::rng_context(const ir::Op& op, int64_t replica) const {
  uint64_t path = 0xcbf29ce484222325u;  // FNV-1a: stable across builds, unlike std::hash
  const Attribute* attribute = op.attributes.find("path");
  const std::string text = attribute != nullptr && std::holds_alternative<std::string>(*attribute)
                               ? std::get<std::string>(*attribute)
                               : std::string();
  for (char c : text) path = (path ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  PhiloxKey key{static_cast<uint32_t>(state_.seed), static_cast<uint32_t>(state_.seed >> 32)};
  PhiloxCounter word = philox4x32(
      {static_cast<uint32_t>(path), static_cast<uint32_t>(path >> 32), static_cast<uint32_t>(replica), 0},
      key);
  for (int64_t counter : counters_)
    word = philox4x32({word[0], word[1], static_cast<uint32_t>(counter), 1}, key);
  return std::make_shared<ReferenceTensor>(
      ReferenceTensor{{DType::kU32, {2}}, {static_cast<double>(word[0]), static_cast<double>(word[1])}});
}

}  // namespace ipu::ops
