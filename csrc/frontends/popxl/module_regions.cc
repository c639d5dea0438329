// Calls, loops, branches and transfers of a program as IR.
#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/call_check.h"
#include "frontends/popxl/module_maker.h"
#include "frontends/popxl/op_kind.h"
#include "ir/structure.h"
#include "ops/update/overwritten.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void invalid(std::string text) { throw Error(ErrorCode::kInvalidIr, std::move(text)); }

bool is_load(const std::string& type) {
  return type == "HostLoad" || type == "RemoteLoad" || type == "RemoteLoadInplace";
}

bool runs_graphs(const std::string& type) {
  return type == "Call" || type == "CallGrad" || type == "Loop" || type == "If" || type == "IfGrad";
}

std::vector<int64_t> marks(const Op& op, int first_operand) {
  std::vector<int64_t> operands;
  for (const int i : op.modified) operands.push_back(i - first_operand);
  return operands;
}

}  // namespace

bool ModuleMaker::add_structural(Scope& scope, const Op& op) {
  const std::string& type = op.kind().type;
  if (op.kind().lower != nullptr || (op.forward != nullptr && op.callees.empty())) return false;
  if (runs_graphs(type)) check_call(op);
  if (type == "Call" || type == "CallGrad") {
    add_call(scope, op);
  } else if (type == "Loop") {
    add_loop(scope, op);
  } else if (type == "If" || type == "IfGrad") {
    add_branch(scope, op);
  } else if (type == "MultiExchange") {
    add_exchange(scope, op);
  } else if (type == "Init") {
    const TensorInfo& info = op.output(0)->info;
    scope.values[op.output(0)] = scope.builder.splat(device_type(info, op.output(0)->id()), 0.0);
  } else if (type == "RemoteCodeLoad") {
    const Graph& loaded = program_.graph(op.attributes.text("graph"));
    scope.builder.create(ir::kind::kCodeLoad, {},
                         {{"graph", Symbol{graph_for(loaded, Role::kCalled)->name()}}}, {});
  } else if (type == "IpuCopy") {
    ir::Value* value = input_of(scope, op, 0);
    const int64_t to = checked_ipu(op.attributes.integer("destination"));
    scope.builder.settings.ipu = static_cast<int>(to);
    scope.values[op.output(0)] =
        scope.builder
            .create(ir::kind::kIpuCopy, {value},
                    {{"from", checked_ipu(op.attributes.integer("source"))}, {"to", to}}, {value->type()})
            ->result();
  } else if (type == "IoTileCopy") {
    ir::Value* value = input_of(scope, op, 0);
    const bool to_io = op.attributes.integer("to", 0) == static_cast<int64_t>(TileSet::kIo);
    scope.builder.settings.tile_set = ir::TileSet::kCompute;
    scope.values[op.output(0)] =
        ops::build(scope.builder, "io_tile_copy", {value}, {{"to", std::string(to_io ? "io" : "compute")}});
  } else {
    std::map<int, ir::Value*> inputs;
    for (const auto& [i, tensor] : op.inputs())
      if (!(i == 0 && (type == "HostLoad" || type == "RemoteLoad"))) inputs[i] = value_of(scope, *tensor);
    for (const auto& [i, value] : add_transfer(scope.builder, op.kind(), op.attributes, inputs))
      if (op.output(i) != nullptr) scope.values[op.output(i)] = value;
  }
  return true;
}

std::map<int, ir::Value*> ModuleMaker::add_transfer(ir::Builder& builder, const OpKind& kind,
                                                    const Attributes& attributes,
                                                    const std::map<int, ir::Value*>& inputs) {
  const auto& type = kind.type;
  if (type == "HostLoad" || type == "HostStore") {
    const Tensor& stream = program_.main().tensor(attributes.text("stream"));
    const bool loads = type == "HostLoad";
    const Symbol name{
        stream_of(stream, loads ? ir::StreamDirection::kHostToDevice : ir::StreamDirection::kDeviceToHost)};
    if (loads)
      return {{0, builder
                      .create(ir::kind::kHostLoad, {}, {{"stream", name}},
                              {device_type(stream.info, stream.id())})
                      ->result()}};
    builder.create(ir::kind::kHostStore, {inputs.at(0)}, {{"stream", name}}, {});
    return {};
  }
  const int id = static_cast<int>(attributes.integer("buffer"));
  const Symbol buffer{remote_buffer_of(id)};
  const auto offset = inputs.find(1);
  std::vector<ir::Value*> operands;
  Attributes more{{"buffer", buffer}};
  if (type == "RemoteStore") operands.push_back(inputs.at(0));
  if (offset == inputs.end()) {
    more.set("entry", int64_t{0});
  } else {
    ir::Value* place = offset->second;
    if (place->type().dtype != DType::kI32 && place->type().dtype != DType::kU32)
      place = ops::build(builder, "cast", {place}, {{"dtype", DType::kU32}});
    operands.push_back(place);
  }
  if (type == "RemoteStore") {
    builder.create(ir::kind::kRemoteStore, operands, more, {});
    return {};
  }
  const ir::Type loaded =
      device_type(program_.remote_buffers.at(id).info, fmt::format("remote buffer {}", id));
  ir::Value* value = builder.create(ir::kind::kRemoteLoad, operands, more, {&loaded, 1})->result();
  if (type == "RemoteLoad") return {{0, value}};
  return {{0, ops::overwritten(builder, inputs.at(0), value)}};
}

void ModuleMaker::add_call(Scope& scope, const Op& op) {
  const Graph& callee = *op.callees.at(0);
  std::vector<ir::Value*> arguments;
  for (size_t i = 0; i < callee.inputs.size(); ++i)
    arguments.push_back(input_of(scope, op, static_cast<int>(i)));
  Attributes attributes{{"callee", Symbol{graph_for(callee, Role::kCalled)->name()}}};
  if (!op.modified.empty()) attributes.set("modified", marks(op, 0));
  std::vector<ir::Type> types;
  const int results = op.outputs().empty() ? 0 : op.outputs().rbegin()->first + 1;
  if (results > static_cast<int>(callee.outputs.size()))
    invalid(fmt::format("output not there: {} {} has {} outputs, and graph '{}' {}", op.kind().type, op.id(),
                        results, callee.id(), callee.outputs.size()));
  for (int i = 0; i < results; ++i)
    types.push_back(device_type(callee.outputs[static_cast<size_t>(i)]->info,
                                callee.outputs[static_cast<size_t>(i)]->id()));
  ir::Op* call = scope.builder.create(ir::kind::kCall, arguments, std::move(attributes), types);
  for (const auto& [i, tensor] : op.outputs()) scope.values[tensor] = call->result(i);
}

void ModuleMaker::add_loop(Scope& scope, const Op& op) {
  const Graph& wrapper = *op.callees.at(0);
  std::vector<ir::Value*> operands;
  for (size_t i = 2; i < wrapper.inputs.size(); ++i)
    operands.push_back(input_of(scope, op, static_cast<int>(i)));
  const size_t carried = wrapper.outputs.empty() ? 0 : wrapper.outputs.size() - 1;
  Attributes attributes{{"body", Symbol{graph_for(wrapper, Role::kLoopBody)->name()}},
                        {"trip", op.attributes.integer("trip")},
                        {"carried", static_cast<int64_t>(carried)}};
  // A carried operand that is wanted back holds what the last iteration gave, which is the result.
  std::vector<int64_t> modified, given_back;
  for (const int64_t i : marks(op, 2))
    (i < static_cast<int64_t>(carried) ? given_back : modified).push_back(i);
  if (!modified.empty()) attributes.set("modified", modified);
  std::vector<ir::Type> types;
  for (size_t i = 0; i < carried; ++i) types.push_back(operands[i]->type());
  ir::Op* loop = scope.builder.create(ir::kind::kLoop, operands, std::move(attributes), types);
  for (const int64_t i : given_back) {
    ir::Op* write = scope.builder.create(
        ir::kind::kWrite, {operands[static_cast<size_t>(i)], loop->result(static_cast<int>(i))}, {}, {});
    write->after.push_back(loop);
  }
  for (const auto& [i, tensor] : op.outputs()) scope.values[tensor] = loop->result(i);
}

// The IR hands the same values to both branches: those of the op, of which each branch graph takes its own.
ir::Graph* ModuleMaker::branch_graph(const Op& op, size_t branch, const std::vector<ir::Type>& arguments,
                                     int outputs) {
  const Graph& callee = *op.callees.at(branch);
  ir::Graph* graph = module_->add_graph(fmt::format("{}.branch", callee.id()));
  ir::Builder builder(graph);
  std::vector<ir::Value*> inputs;
  for (const ir::Type& type : arguments) inputs.push_back(graph->add_input(type));
  std::vector<ir::Value*> handed;
  for (size_t i = 0; i < callee.inputs.size(); ++i) {
    const auto found = op.callee_inputs.at(branch).find(static_cast<int>(i));
    if (found == op.callee_inputs[branch].end() || op.input(found->second) == nullptr)
      invalid(fmt::format("input not connected: {} {} gives nothing to input {} of graph '{}'",
                          op.kind().type, op.id(), i, callee.id()));
    handed.push_back(inputs.at(static_cast<size_t>(found->second) - 1));
  }
  ir::Graph* target = graph_for(callee, Role::kCalled);
  const std::vector<ir::Value*> results = builder.call(target, handed);
  std::vector<ir::Value*> returned(static_cast<size_t>(outputs), nullptr);
  for (const auto& [output, i] : op.callee_outputs.at(branch))
    if (i >= 0 && i < outputs) returned[static_cast<size_t>(i)] = results.at(static_cast<size_t>(output));
  for (size_t i = 0; i < returned.size(); ++i) {
    if (returned[i] == nullptr && op.kind().type == "IfGrad")  // of an input that this branch does not have
      returned[i] = builder.splat(device_type(op.output(static_cast<int>(i))->info, "a gradient"), 0.0);
    if (returned[i] == nullptr)
      invalid(fmt::format("branch without an output: graph '{}' gives nothing for output {} of {} {}",
                          callee.id(), i, op.kind().type, op.id()));
    graph->append_output(returned[i]);
  }
  return graph;
}

void ModuleMaker::add_branch(Scope& scope, const Op& op) {
  ir::Value* condition = input_of(scope, op, 0);
  if (!condition->type().shape.empty())
    condition = ops::build(scope.builder, "reshape", {condition}, {{"shape", Shape{}}});
  const int last = op.inputs().rbegin()->first;
  std::vector<ir::Value*> arguments;
  std::vector<ir::Type> types;
  for (int i = 1; i <= last; ++i) {
    arguments.push_back(input_of(scope, op, i));
    types.push_back(arguments.back()->type());
  }
  const int outputs = op.outputs().empty() ? 0 : op.outputs().rbegin()->first + 1;
  ir::Graph* then_graph = branch_graph(op, 0, types, outputs);
  ir::Graph* else_graph = branch_graph(op, 1, types, outputs);
  const std::vector<ir::Value*> results = scope.builder.branch(condition, then_graph, else_graph, arguments);
  for (const auto& [i, tensor] : op.outputs()) scope.values[tensor] = results.at(static_cast<size_t>(i));
}

void ModuleMaker::add_exchange(Scope& scope, const Op& op) {
  ir::Graph* graph = module_->add_graph("exchange");
  ir::Builder inner(graph);
  inner.settings = scope.builder.settings;
  inner.location = scope.builder.location;
  std::vector<ir::Value*> operands;
  std::vector<const Tensor*> results;
  for (const Transfer& transfer : op.transfers) {
    std::map<int, ir::Value*> inputs;
    for (const auto& [own, i] : transfer.inputs) {
      if (own == 0 && is_load(transfer.kind->type)) continue;  // what a load replaces is not read
      ir::Value* value = input_of(scope, op, i);
      ir::Value* input = graph->add_input(value->type());
      operands.push_back(value);
      inputs[own] = input;
    }
    if (transfer.kind->type == "RemoteCodeLoad") continue;
    // An overwritten tensor takes the value outside: an exchange holds transfers alone.
    const OpKind& kind = transfer.kind->type == "RemoteLoadInplace" ? kind_of("RemoteLoad") : *transfer.kind;
    for (const auto& [own, value] : add_transfer(inner, kind, transfer.attributes, inputs)) {
      graph->append_output(value);
      results.push_back(op.output(transfer.outputs.at(own)));
    }
  }
  std::vector<ir::Type> types;
  for (const ir::Value* output : graph->outputs()) types.push_back(output->type());
  ir::Op* exchange =
      scope.builder.create(ir::kind::kMultiExchange, operands, {{"callee", Symbol{graph->name()}}}, types);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i] != nullptr) scope.values[results[i]] = exchange->result(static_cast<int>(i));
  for (const Transfer& transfer : op.transfers) {
    if (transfer.kind->type != "RemoteLoadInplace") continue;
    const Tensor* output = op.output(transfer.outputs.at(0));
    ir::Value* target = input_of(scope, op, transfer.inputs.at(0));
    scope.values[output] = ops::overwritten(scope.builder, target, scope.values.at(output));
  }
}

}  // namespace ipu::popxl
