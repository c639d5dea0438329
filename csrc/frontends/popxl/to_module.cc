#include "frontends/popxl/to_module.h"

#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/infer.h"
#include "frontends/popxl/lower_gradient.h"
#include "frontends/popxl/module_maker.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/placement.h"
#include "ir/structure.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void invalid(std::string text) { throw Error(ErrorCode::kInvalidIr, std::move(text)); }

// The IPU of a variable is that of what computes with it, also in graphs that other IPUs call.
std::optional<int64_t> home_of(const Tensor& tensor) {
  return tensor.type == TensorType::kVariable ? place_of(tensor).ipu : std::nullopt;
}

}  // namespace

int64_t checked_ipu(int64_t number) {
  constexpr int64_t kMost = 4096;
  if (number < 0 || number >= kMost)
    invalid(
        fmt::format("no such IPU: {}; the IPUs of a replica have numbers from 0 to {}", number, kMost - 1));
  return number;
}

std::unique_ptr<ir::Module> to_module(const Program& program) { return ModuleMaker(program).make(); }

ModuleMaker::ModuleMaker(const Program& program)
    : program_(program), module_(std::make_unique<ir::Module>()) {}

std::unique_ptr<ir::Module> ModuleMaker::make() {
  std::vector<const Graph*> path;
  check_calls(program_.main(), path);
  if (program_.replicas != 1) module_->attributes.set("replicas", program_.replicas);
  if (program_.processes != 1) module_->attributes.set("processes", program_.processes);
  if (program_.io_tiles != 0) module_->attributes.set("io_tiles", program_.io_tiles);
  std::map<ExecutionContext, OpList> by_context;
  for (Op* op : program_.main().schedule()) by_context[entry_of(*op)].push_back(op);
  make_entry(ExecutionContext::kNormal, "main", by_context[ExecutionContext::kNormal]);
  if (const auto& ops = by_context[ExecutionContext::kWeightsFromHost]; !ops.empty())
    make_entry(ExecutionContext::kWeightsFromHost, "weights_from_host", ops);
  if (const auto& ops = by_context[ExecutionContext::kWeightsToHost]; !ops.empty())
    make_entry(ExecutionContext::kWeightsToHost, "weights_to_host", ops);
  return std::move(module_);
}

// No graph calls itself, not even through others.
void ModuleMaker::check_calls(const Graph& root, std::vector<const Graph*>& path) {
  // Depth first without recursion on the stack of the process: paths of graphs may be long.
  enum class State : uint8_t { kOpen, kDone };
  std::map<const Graph*, State> states;
  struct Step {
    const Graph* graph;
    std::vector<Graph*> callees;
    size_t next = 0;
  };
  std::vector<Step> steps{{&root, root.callees()}};
  states[&root] = State::kOpen;
  while (!steps.empty()) {
    Step& step = steps.back();
    if (step.next == step.callees.size()) {
      states[step.graph] = State::kDone;
      path.push_back(step.graph);
      steps.pop_back();
      continue;
    }
    const Graph* callee = step.callees[step.next++];
    const auto found = states.find(callee);
    if (found == states.end()) {
      states[callee] = State::kOpen;
      steps.push_back({callee, callee->callees()});
    } else if (found->second == State::kOpen) {
      invalid(fmt::format("graph calls itself: {} is called by what it calls; recursion is not possible",
                          described(*callee)));
    }
  }
  // Called graphs come first in `path`, so that making them in this order never goes deep.
  for (const Graph* graph : path)
    for (const auto& [id, op] : graph->ops())
      if (!op->callees.empty())
        for (Graph* callee : op->callees)
          graph_for(*callee, op->kind().type == "Loop" ? Role::kLoopBody : Role::kCalled);
}

bool ModuleMaker::is_entry_context(ExecutionContext context) {
  return context == ExecutionContext::kWeightsFromHost || context == ExecutionContext::kWeightsToHost;
}

ExecutionContext ModuleMaker::entry_of(const Op& op) {
  return is_entry_context(op.settings.context) ? op.settings.context : ExecutionContext::kNormal;
}

ir::Type ModuleMaker::device_type(const TensorInfo& info, const std::string& what) const {
  const std::optional<DType> dtype = on_device(info.dtype);
  if (!dtype)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("no such type on the device: {} is {}", what, to_string(info)));
  return {*dtype, info.shape};
}

// The graph of the IR: made with its inputs when first asked for, and filled at once.
ir::Graph* ModuleMaker::graph_for(const Graph& graph, Role role) {
  auto [at, is_new] = graphs_.try_emplace({&graph, role}, nullptr);
  if (!is_new) return at->second;
  ir::Graph* target = module_->add_graph(graph.id());
  at->second = target;
  Scope scope{graph, target, ir::Builder(target)};
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Tensor& input = *graph.inputs[i];
    if (role == Role::kLoopBody && i == 1) {  // the condition of the wrapper, which the IR does not have
      scope.values[&input] = scope.builder.scalar(DType::kBool, 1.0);
      continue;
    }
    ir::Value* value = target->add_input(device_type(input.info, input.id()), input.name());
    value->by_reference = true;  // a call site says which it wants back; others hand over a copy
    scope.values[&input] = value;
  }
  fill(scope, graph.schedule());
  for (size_t i = role == Role::kLoopBody ? 1 : 0; i < graph.outputs.size(); ++i)
    target->append_output(value_of(scope, *graph.outputs[i]));
  return target;
}

void ModuleMaker::make_entry(ExecutionContext context, const char* name, const OpList& ops) {
  ir::Graph* target = module_->add_graph(name);
  module_->entry_points[name] = target->name();
  Scope scope{program_.main(), target, ir::Builder(target), context};
  fill(scope, ops);
  assign_variables(scope);
}

void ModuleMaker::fill(Scope& scope, const OpList& ops) {
  for (const Op* op : ops) add_op(scope, *op);
  // Ordering edges. Constants have none: nothing happens when they are made.
  for (const Op* op : ops) {
    const auto later = scope.made.find(op);
    if (later == scope.made.end()) continue;
    for (const Op* before : scope.graph.before(*op)) {
      const auto earlier = scope.made.find(before);
      if (earlier == scope.made.end()) continue;
      for (ir::Op* to : later->second)
        for (ir::Op* from : earlier->second) to->after.push_back(from);
    }
  }
}

void ModuleMaker::place(Scope& scope, const Op& op) const {
  ir::Builder& builder = scope.builder;
  builder.settings = {};
  if (op.settings.ipu) builder.settings.ipu = static_cast<int>(checked_ipu(*op.settings.ipu));
  if (op.settings.tile_set == TileSet::kIo) builder.settings.tile_set = ir::TileSet::kIo;
  if (op.forward != nullptr) builder.settings.context = ir::Context::kBackward;
  if (is_entry_context(op.settings.context)) builder.settings.context = ir::Context::kWeightTransfer;
  builder.location = op.settings.location;
}

void ModuleMaker::add_op(Scope& scope, const Op& op) {
  place(scope, op);
  ir::OriginPtr& origin = origins_[&op.kind()];
  if (origin == nullptr)
    origin = std::make_shared<const ir::Origin>(
        ir::Origin{op.kind().domain, op.kind().type, op.kind().version, {}});
  scope.builder.origin = origin;
  const ir::Op* last = scope.target->ops().empty() ? nullptr : scope.target->ops().back().get();
  if (!add_structural(scope, op)) {
    const Attributes& attributes = op.forward != nullptr ? op.forward->attributes : op.attributes;
    LowerCall call(op, op.kind(), attributes, scope.builder);
    for (const auto& [i, tensor] : op.inputs()) call.set_input(i, value_of(scope, *tensor));
    if (op.forward != nullptr) {
      lower_gradient(call);
    } else {
      IPU_CHECK(op.kind().lower != nullptr, "the row of " + op.kind().type + " does not lower it");
      check_late_types(op);
      op.kind().lower(call);
    }
    for (const auto& [i, tensor] : op.outputs())
      if (const auto found = call.outputs().find(i); found != call.outputs().end())
        scope.values[tensor] = found->second;
  }
  std::vector<ir::Op*>& made = scope.made[&op];
  for (ir::Op* one = last == nullptr
                         ? (scope.target->ops().empty() ? nullptr : scope.target->ops().front().get())
                         : scope.target->next(last);
       one != nullptr; one = scope.target->next(one))
    if (!one->is(ir::kind::kConstant) && !one->is(ir::kind::kVariableRead)) made.push_back(one);
  for (const auto& [i, tensor] : op.outputs())
    if (const auto found = scope.values.find(tensor); found != scope.values.end())
      scope.target->rename(found->second, tensor->name());
  if (&scope.graph == &program_.main()) note_memory(scope, op);
}

ir::Value* ModuleMaker::value_of(Scope& scope, const Tensor& tensor) {
  if (const auto found = scope.values.find(&tensor); found != scope.values.end()) return found->second;
  if (tensor.type == TensorType::kConst && tensor.constant != nullptr)
    return scope.values[&tensor] = scope.builder.constant(tensor.constant, tensor.name());
  const bool is_of_other_context =
      tensor.producer() != nullptr && scope.graph.is_main() && entry_of(*tensor.producer()) != scope.context;
  if (tensor.type == TensorType::kVariable || is_of_other_context) {
    if (tensor.type == TensorType::kVariable && tensor.variable.remote_buffer >= 0)
      invalid(
          fmt::format("remote variable read as it is: '{}' lives in remote buffer {}; take its value with "
                      "remote_load",
                      tensor.id(), tensor.variable.remote_buffer));
    ir::Variable& variable = variable_of(tensor);
    scope.read[&tensor] = &variable;
    scope.memory[&tensor] = {&tensor};
    const std::optional<int> reader = scope.builder.settings.ipu;
    if (const std::optional<int64_t> home = home_of(tensor))
      scope.builder.settings.ipu = static_cast<int>(checked_ipu(*home));
    ir::Value* value = scope.builder.read_variable(variable);
    scope.builder.settings.ipu = reader;
    return scope.values[&tensor] = value;
  }
  invalid(fmt::format("tensor without a value: '{}' of {} is read, and no op makes it", tensor.id(),
                      described(scope.graph)));
}

ir::Value* ModuleMaker::input_of(Scope& scope, const Op& op, int i) {
  const Tensor* tensor = op.input(i);
  if (tensor == nullptr)
    invalid(fmt::format("input not connected: {} {} of {} needs input {}", op.kind().type, op.id(),
                        described(scope.graph), i));
  return value_of(scope, *tensor);
}

ir::Variable& ModuleMaker::variable_of(const Tensor& tensor) {
  ir::Variable*& found = variables_[&tensor];
  if (found != nullptr) return *found;
  ir::Variable variable;
  variable.name = tensor.id();
  variable.type = device_type(tensor.info, tensor.id());
  if (tensor.type == TensorType::kVariable) {
    variable.grouping = tensor.variable.grouping;
    if (variable.grouping.assignment.empty() && variable.grouping.size == program_.replicas)
      variable.grouping = {};  // one group
    if (tensor.variable.all_replicas && variable.grouping.is_one_group())
      variable.grouping = {1, program_.replicas};  // said by size: the host gets a value of each replica
    variable.retrieval =
        tensor.variable.all_replicas ? ir::Retrieval::kAllReplicas : ir::Retrieval::kOnePerGroup;
    variable.shard_over = tensor.variable.shard_over;
    if (variable.shard_over > 1) {  // a handle has the shape of the whole; the IR's type is that of a shard
      if (!tensor.info.meta_shape.empty()) {
        variable.meta_shape = tensor.info.meta_shape;
      } else {
        variable.meta_shape = tensor.info.shape;
        const int64_t elements = element_count(variable.meta_shape);
        variable.type.shape = {(elements + variable.shard_over - 1) / variable.shard_over};
      }
    }
    if (tensor.variable.remote_buffer >= 0) lay_in_entry(variable, tensor.variable);
  } else {
    variable.role = "buffer";
    variable.grouping = {1, 1};
  }
  found = &module_->add_variable(std::move(variable));
  return *found;
}

// The variable has the shape of the entries; elements count, and who writes and reads it from the host sees to those that an
// entry has more or fewer (popart/_impl/sessions/entry_rows.py). In entries larger than a shard each replica has a value of its
// own.
void ModuleMaker::lay_in_entry(ir::Variable& variable, const VariableSettings& settings) {
  variable.remote_buffer = remote_buffer_of(settings.remote_buffer);
  variable.remote_entry = settings.remote_entry;
  const Shape& entry = program_.remote_buffers.at(settings.remote_buffer).info.shape;
  if (variable.type.shape == entry) return;
  variable.type.shape = entry;
  if (variable.shard_over == 1) return;
  variable.shard_over = 1;
  variable.meta_shape.clear();
  variable.grouping = {1, 1};
  variable.retrieval = ir::Retrieval::kOnePerGroup;
}

const std::string& ModuleMaker::remote_buffer_of(int id) {
  std::string& name = remote_buffers_[id];
  if (!name.empty()) return name;
  const auto found = program_.remote_buffers.find(id);
  if (found == program_.remote_buffers.end())
    invalid(fmt::format("unknown remote buffer: there is none of id {}", id));
  const RemoteBufferInfo& info = found->second;
  name = module_
             ->add_remote_buffer({fmt::format("remote_buffer_{}", id),
                                  device_type(info.info, fmt::format("remote buffer {}", id)), info.entries})
             .name;
  // Variables that live in it, whether or not the program reads them.
  for (const auto& [tensor_id, tensor] : program_.main().tensors())
    if (tensor->type == TensorType::kVariable && tensor->variable.remote_buffer == id) variable_of(*tensor);
  return name;
}

const std::string& ModuleMaker::stream_of(const Tensor& tensor, ir::StreamDirection direction) {
  std::string& name = streams_[&tensor];
  if (name.empty()) {
    ir::Stream stream;
    stream.name = tensor.id();
    stream.direction = direction;
    stream.type = device_type(tensor.info, tensor.id());
    stream.host_dtype = stream.type.dtype;
    name = module_->add_stream(std::move(stream)).name;
  }
  return name;
}

// In which variables the outputs of an op of the main graph lie, and which it writes.
void ModuleMaker::note_memory(Scope& scope, const Op& op) {
  const auto lies_in = [&](const Tensor* tensor) {
    const auto found = scope.memory.find(tensor);
    return found == scope.memory.end() ? std::vector<const Tensor*>() : found->second;
  };
  std::vector<int> views = op.kind().views;
  if (views == std::vector<int>{-1}) {
    views.clear();
    for (const auto& [i, tensor] : op.inputs()) views.push_back(i);
  }
  std::vector<const Tensor*> shared;
  for (const int i : views)
    for (const Tensor* variable : lies_in(op.input(i))) shared.push_back(variable);
  std::set<int> written(op.kind().modifies.begin(), op.kind().modifies.end());
  written.insert(op.modified.begin(), op.modified.end());
  for (const int i : written)
    for (const Tensor* variable : lies_in(op.input(i))) {
      scope.written[variable].push_back(&op);
      if (!op.kind().modifies.empty() && i == op.kind().modifies.front()) shared.push_back(variable);
    }
  if (const Tensor* output = op.output(0); output != nullptr && !shared.empty())
    scope.memory[output] = shared;
  // What another context reads is a variable there from the end of this one on.
  for (const auto& [i, tensor] : op.outputs()) {
    const bool leaves =
        std::any_of(tensor->uses().begin(), tensor->uses().end(),
                    [&](const Tensor::Use& use) { return entry_of(*use.op) != scope.context; });
    if (!leaves) continue;
    scope.read[tensor] = &variable_of(*tensor);
    scope.memory[tensor].push_back(tensor);
    scope.written[tensor].push_back(&op);
  }
}

void ModuleMaker::assign_variables(Scope& scope) {
  scope.builder.settings = {};
  scope.builder.location = nullptr;
  scope.builder.origin = nullptr;
  for (const auto& [tensor, variable] : scope.read) {
    const auto written = scope.written.find(tensor);
    if (written == scope.written.end()) continue;
    if (is_entry_context(scope.context)) scope.builder.settings.context = ir::Context::kWeightTransfer;
    ir::Op* assign = scope.builder.create(ir::kind::kVariableAssign, {scope.values.at(tensor)},
                                          {{"variable", Symbol{variable->name}}}, {});
    if (const std::optional<int64_t> home = home_of(*tensor))
      assign->settings.ipu = static_cast<int>(checked_ipu(*home));
    std::set<const Op*> seen;
    for (const Op* op : written->second) {
      if (!seen.insert(op).second) continue;
      if (op->settings.ipu && !assign->settings.ipu)
        assign->settings.ipu = static_cast<int>(*op->settings.ipu);
      for (ir::Op* one : scope.made.at(op)) assign->after.push_back(one);
    }
  }
}

}  // namespace ipu::popxl
