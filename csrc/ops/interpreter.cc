// Runs graphs op by op. Defined ops go through their reference; the structural ones of ir/structure.h are
// here.
#include "ops/interpreter.h"

#include <memory>
#include <unordered_map>

#include "ir/structure.h"
#include "ops/build.h"
#include "support/error.h"
#include "support/philox.h"

namespace ipu::ops {
namespace {

using TensorPtr = std::shared_ptr<const ReferenceTensor>;

[[noreturn]] void fail(const ir::Op& op, const std::string& what) {
  Error error(ErrorCode::kExecution, what + "\n  in: " + op.kind() + " of graph @" + op.graph()->name());
  if (op.location != nullptr && !op.location->file.empty())
    error.at(op.location->file + ":" + std::to_string(op.location->line));
  throw error;
}

void settle(ReferenceTensor& tensor, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kNative || !is_floating_point(tensor.type.dtype)) round_to(tensor);
}

}  // namespace

std::vector<ReferenceTensor> interpret_op(const ir::Op& op,
                                          const std::vector<const ReferenceTensor*>& operands,
                                          Arithmetic arithmetic) {
  const OpDef* def = definition(op);
  if (def == nullptr) fail(op, "unknown operation: '" + op.kind() + "' has no definition and cannot run.");
  if (!def->reference) fail(op, "no reference: '" + op.kind() + "' has no reference value.");
  std::vector<ReferenceTensor> results;
  for (int i = 0; i < op.result_count(); ++i) results.push_back(ReferenceTensor::zeros(op.result(i)->type()));
  const Attributes attributes = with_defaults(*def, op.attributes);
  ReferenceCall call{attributes, operands, {}};
  for (ReferenceTensor& result : results) call.results.push_back(&result);
  def->reference(call);
  for (ReferenceTensor& result : results) settle(result, arithmetic);
  return results;
}

// One execution of a module's graphs over the interpreter's state.
class Interpreter::Run {
 public:
  explicit Run(Interpreter& state) : state_(state), module_(state.module_) {}

  // `final_inputs`, when given, receives what the inputs hold at the end (by-reference call sites of the
  // authored form).
  std::vector<TensorPtr> graph(const ir::Graph& graph, std::vector<TensorPtr> inputs,
                               std::vector<TensorPtr>* final_inputs = nullptr) {
    if (inputs.size() != graph.inputs().size())
      throw Error(ErrorCode::kExecution, "input count mismatch: graph @" + graph.name() + " takes " +
                                             std::to_string(graph.inputs().size()) + " inputs, not " +
                                             std::to_string(inputs.size()) + ".");
    Frame frame;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Value* input = graph.inputs()[i];
      if (inputs[i]->type.shape != input->type().shape || inputs[i]->type.dtype != input->type().dtype)
        throw Error(ErrorCode::kExecution, "input mismatch: %" + input->name() + " of graph @" +
                                               graph.name() + " is " + ir::to_string(input->type()) +
                                               ", not " + ir::to_string(inputs[i]->type) + ".");
      frame[input] = std::move(inputs[i]);
    }
    for (const auto& op : graph.ops()) run(*op, frame);
    std::vector<TensorPtr> outputs;
    for (const ir::Value* value : graph.outputs()) outputs.push_back(frame.at(value));
    if (final_inputs != nullptr)
      for (const ir::Value* value : graph.inputs()) final_inputs->push_back(frame.at(value));
    return outputs;
  }

 private:
  using Frame = std::unordered_map<const ir::Value*, TensorPtr>;

  void run(const ir::Op& op, Frame& frame) {
    std::vector<TensorPtr> operands;
    for (int i = 0; i < op.operand_count(); ++i)
      operands.push_back(op.operand(i) == nullptr ? nullptr : frame.at(op.operand(i)));
    std::vector<TensorPtr> results =
        ir::is_structural(op) ? structural(op, operands, frame) : defined(op, operands);
    IPU_CHECK(static_cast<int>(results.size()) == op.result_count(),
              "'" + op.kind() + "' gave another number of results");
    for (int i = 0; i < op.result_count(); ++i) {
      if (state_.on_value) state_.on_value(op, i, *results[i]);
      frame[op.result(i)] = std::move(results[i]);
    }
  }

  std::vector<TensorPtr> defined(const ir::Op& op, const std::vector<TensorPtr>& operands) {
    std::vector<const ReferenceTensor*> pointers;
    for (const TensorPtr& operand : operands) pointers.push_back(operand.get());
    std::vector<TensorPtr> results;
    for (ReferenceTensor& result : interpret_op(op, pointers, state_.arithmetic_))
      results.push_back(std::make_shared<ReferenceTensor>(std::move(result)));
    return results;
  }

  const ir::Graph& named(const ir::Op& op, std::string_view attribute) {
    return named(op, op.attributes.symbol(attribute));
  }
  const ir::Graph& named(const ir::Op& op, const Symbol& symbol) {
    const ir::Graph* graph = module_.find_graph(symbol.name);
    if (graph == nullptr) fail(op, "unknown graph: @" + symbol.name + " does not exist.");
    return *graph;
  }

  static TensorPtr index_tensor(int64_t value) {
    return std::make_shared<ReferenceTensor>(
        ReferenceTensor{{DType::kI32, {}}, {static_cast<double>(value)}});
  }

  std::vector<TensorPtr> call(const ir::Op& op, const std::vector<TensorPtr>& operands, Frame& frame) {
    const std::vector<int64_t> modified = op.attributes.integers("modified", {});
    std::vector<TensorPtr> final_inputs;
    std::vector<TensorPtr> results = graph(named(op, "callee"), operands, &final_inputs);
    for (int64_t i : modified) frame[op.operand(static_cast<int>(i))] = final_inputs[static_cast<size_t>(i)];
    return results;
  }

  // Marked invariants (authored form) keep what an iteration wrote to them; all others start anew in each.
  std::vector<TensorPtr> loop(const ir::Op& op, std::vector<TensorPtr> operands, Frame& frame) {
    const ir::Graph& body = named(op, "body");
    const auto carried_count = static_cast<size_t>(op.attributes.integer("carried"));
    const bool has_condition = op.attributes.boolean("while", false);
    const std::vector<int64_t> modified = op.attributes.integers("modified", {});
    std::vector<TensorPtr> carried(operands.begin(),
                                   operands.begin() + static_cast<ptrdiff_t>(carried_count));
    for (int64_t i = 0, trip = op.attributes.integer("trip"); i < trip; ++i) {
      std::vector<TensorPtr> inputs{index_tensor(i)};
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      inputs.insert(inputs.end(), operands.begin() + static_cast<ptrdiff_t>(carried_count), operands.end());
      counters_.push_back(i);
      std::vector<TensorPtr> final_inputs;
      std::vector<TensorPtr> outputs = graph(body, std::move(inputs), &final_inputs);
      counters_.pop_back();
      carried.assign(outputs.begin() + (has_condition ? 1 : 0), outputs.end());
      for (int64_t k : modified) operands[static_cast<size_t>(k)] = final_inputs[static_cast<size_t>(k) + 1];
      if (has_condition && outputs.front()->values[0] == 0) break;
    }
    for (int64_t k : modified) frame[op.operand(static_cast<int>(k))] = operands[static_cast<size_t>(k)];
    return carried;
  }

  // Each micro-batch runs the stages in order; a stage sees what all earlier stages of the micro-batch handed
  // on.
  std::vector<TensorPtr> pipeline(const ir::Op& op, const std::vector<TensorPtr>& operands) {
    const std::vector<Symbol>& stages = op.attributes.symbols("stages");
    const auto carried_count = static_cast<size_t>(op.attributes.integer("carried"));
    std::vector<TensorPtr> carried(operands.begin(),
                                   operands.begin() + static_cast<ptrdiff_t>(carried_count));
    for (int64_t i = 0, count = op.attributes.integer("micro_batches"); i < count; ++i) {
      std::vector<TensorPtr> flows;
      counters_.push_back(i);
      for (const Symbol& stage : stages) {
        std::vector<TensorPtr> inputs{index_tensor(i)};
        inputs.insert(inputs.end(), carried.begin(), carried.end());
        inputs.insert(inputs.end(), operands.begin() + static_cast<ptrdiff_t>(carried_count), operands.end());
        inputs.insert(inputs.end(), flows.begin(), flows.end());
        std::vector<TensorPtr> outputs = graph(named(op, stage), std::move(inputs));
        carried.assign(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(carried_count));
        flows.insert(flows.end(), outputs.begin() + static_cast<ptrdiff_t>(carried_count), outputs.end());
      }
      counters_.pop_back();
    }
    return carried;
  }

  TensorPtr take(const ir::Op& op, std::deque<ReferenceTensor>& queue, bool keep, const char* what,
                 const std::string& name) {
    if (queue.empty()) fail(op, std::string(what) + " is empty: @" + name + " has no element left.");
    ReferenceTensor element = queue.front();
    if (!keep) queue.pop_front();
    const ir::Type& type = op.result()->type();
    if (element.type.shape != type.shape)
      fail(op, std::string(what) + " mismatch: @" + name + " holds " + ir::to_string(element.type) +
                   ", not " + ir::to_string(type) + ".");
    element.type.dtype = type.dtype;  // i64 is narrowed at this edge
    settle(element, state_.arithmetic_);
    return std::make_shared<ReferenceTensor>(std::move(element));
  }

  ReferenceTensor& remote_entry(const ir::Op& op, const TensorPtr& offset) {
    const std::string& name = op.attributes.symbol("buffer").name;
    const ir::RemoteBuffer* buffer = module_.find_remote_buffer(name);
    if (buffer == nullptr) fail(op, "unknown remote buffer: @" + name + " does not exist.");
    const int64_t entry =
        offset != nullptr ? static_cast<int64_t>(offset->values[0]) : op.attributes.integer("entry", 0);
    if (entry < 0 || entry >= buffer->entries)
      fail(op, "remote buffer entry out of range: " + std::to_string(entry) + " of @" + name +
                   ", which has " + std::to_string(buffer->entries) + " entries.");
    std::vector<ReferenceTensor>& entries = state_.remote_buffers[name];
    while (static_cast<int64_t>(entries.size()) < buffer->entries)
      entries.push_back(ReferenceTensor::zeros(buffer->type));
    return entries[static_cast<size_t>(entry)];
  }

  // Two words from the seed, the path of the op and the counters of the loops around it.
  TensorPtr rng_context(const ir::Op& op) {
    uint64_t path = 0xcbf29ce484222325u;  // FNV-1a: stable across builds, unlike std::hash
    const Attribute* attribute = op.attributes.find("path");
    const std::string text = attribute != nullptr && std::holds_alternative<std::string>(*attribute)
                                 ? std::get<std::string>(*attribute)
                                 : std::string();
    for (char c : text) path = (path ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    PhiloxKey key{static_cast<uint32_t>(state_.seed), static_cast<uint32_t>(state_.seed >> 32)};
    PhiloxCounter word =
        philox4x32({static_cast<uint32_t>(path), static_cast<uint32_t>(path >> 32), 0, 0}, key);
    for (int64_t counter : counters_)
      word = philox4x32({word[0], word[1], static_cast<uint32_t>(counter), 1}, key);
    return std::make_shared<ReferenceTensor>(
        ReferenceTensor{{DType::kU32, {2}}, {static_cast<double>(word[0]), static_cast<double>(word[1])}});
  }

  std::vector<TensorPtr> structural(const ir::Op& op, const std::vector<TensorPtr>& operands, Frame& frame) {
    namespace kind = ir::kind;
    if (op.is(kind::kCall)) return call(op, operands, frame);
    if (op.is(kind::kLoop)) return loop(op, operands, frame);
    if (op.is(kind::kPipeline)) return pipeline(op, operands);
    if (op.is(kind::kIf)) {
      const bool condition = operands[0]->values[0] != 0;
      std::vector<TensorPtr> final_inputs;
      std::vector<TensorPtr> results = graph(named(op, condition ? "then" : "else"),
                                             {operands.begin() + 1, operands.end()}, &final_inputs);
      for (int64_t i : op.attributes.integers("modified", {}))
        frame[op.operand(static_cast<int>(i))] = final_inputs[static_cast<size_t>(i) - 1];
      return results;
    }
    if (op.is(kind::kConstant)) {
      return {std::make_shared<ReferenceTensor>(
          ReferenceTensor::from_constant(*op.attributes.constant("value")))};
    }
    if (op.is(kind::kVariableRead)) return {read_variable(op)};
    if (op.is(kind::kVariableAssign)) {
      state_.variables[op.attributes.symbol("variable").name] = *operands[0];
      return {};
    }
    if (op.is(kind::kHostLoad)) {
      const std::string& name = op.attributes.symbol("stream").name;
      const ir::Stream* stream = module_.find_stream(name);
      return {take(op, state_.streams[name], stream != nullptr && stream->constant, "stream", name)};
    }
    if (op.is(kind::kHostStore)) {
      state_.streams[op.attributes.symbol("stream").name].push_back(*operands[0]);
      return {};
    }
    if (op.is(kind::kRingPush)) return push(op, *operands[0]);
    if (op.is(kind::kRingPop)) {
      const std::string& name = op.attributes.symbol("ring").name;
      return {take(op, state_.rings[name], false, "ring", name)};
    }
    if (op.is(kind::kIpuCopy)) return {operands[0]};
    if (op.is(kind::kRemoteLoad))
      return {std::make_shared<ReferenceTensor>(remote_entry(op, operands.empty() ? nullptr : operands[0]))};
    if (op.is(kind::kRemoteStore)) {
      remote_entry(op, operands.size() > 1 ? operands[1] : nullptr) = *operands[0];
      return {};
    }
    if (op.is(kind::kRngContext)) return {rng_context(op)};
    if (op.is(kind::kWrite)) {
      frame[op.operand(0)] = written(op, operands);
      return {};
    }
    fail(op, "unknown operation: structural op '" + op.kind() + "' cannot run.");
  }

  // What a write leaves in its target.
  static TensorPtr written(const ir::Op& op, const std::vector<TensorPtr>& operands) {
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

  TensorPtr read_variable(const ir::Op& op) {
    const std::string& name = op.attributes.symbol("variable").name;
    auto at = state_.variables.find(name);
    if (at != state_.variables.end()) return std::make_shared<ReferenceTensor>(at->second);
    const ir::Variable* variable = module_.find_variable(name);
    if (variable == nullptr || variable->initial == nullptr)
      fail(op, "variable has no value: @" + name + " was neither uploaded nor initialised.");
    return std::make_shared<ReferenceTensor>(ReferenceTensor::from_constant(*variable->initial));
  }

  std::vector<TensorPtr> push(const ir::Op& op, const ReferenceTensor& value) {
    const std::string& name = op.attributes.symbol("ring").name;
    std::deque<ReferenceTensor>& queue = state_.rings[name];
    const ir::Ring* ring = module_.find_ring(name);
    if (ring != nullptr && static_cast<int64_t>(queue.size()) >= ring->capacity)
      fail(op, "ring is full: @" + name + " holds its " + std::to_string(ring->capacity) + " elements.");
    queue.push_back(value);
    return {};
  }

  Interpreter& state_;
  const ir::Module& module_;
  std::vector<int64_t> counters_;  // of the loops being run, outermost first
};

Interpreter::Interpreter(const ir::Module& module, Arithmetic arithmetic)
    : module_(module), arithmetic_(arithmetic) {}

std::vector<ReferenceTensor> Interpreter::run(const ir::Graph& graph, std::vector<ReferenceTensor> inputs) {
  std::vector<TensorPtr> pointers;
  for (ReferenceTensor& input : inputs) {
    settle(input, arithmetic_);
    pointers.push_back(std::make_shared<ReferenceTensor>(std::move(input)));
  }
  std::vector<ReferenceTensor> outputs;
  for (const TensorPtr& output : Run(*this).graph(graph, std::move(pointers))) outputs.push_back(*output);
  return outputs;
}

void Interpreter::run_entry_point(const std::string& name) {
  auto at = module_.entry_points.find(name);
  const ir::Graph* graph = at == module_.entry_points.end() ? nullptr : module_.find_graph(at->second);
  if (graph == nullptr)
    throw Error(ErrorCode::kExecution, "unknown entry point: '" + name + "' does not exist.");
  run(*graph, {});
}

}  // namespace ipu::ops
