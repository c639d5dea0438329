// Copies of graphs and modules. Names, ids and the order of uses are those of the original, so that whatever
// is done to a copy gives what it would have given there.
#include "ir/module.h"
#include "support/interruption.h"

namespace ipu::ir {

void Graph::copy_contents(const Graph& from, std::unordered_map<const Value*, Value*>& values) {
  attributes = from.attributes;
  auto twin_of = [&](const Value& value, Op* producer) {
    std::unique_ptr<Value> owned(new Value);
    Value* twin = owned.get();
    twin->name_ = value.name_;
    twin->type_ = value.type_;
    twin->producer_ = producer;
    twin->index_ = value.index_;
    twin->graph_ = this;
    twin->output_count_ = value.output_count_;
    twin->ipu = value.ipu;
    twin->by_reference = value.by_reference;
    values_.emplace(twin->name_, std::move(owned));
    values[&value] = twin;
    return twin;
  };
  for (const Value* input : from.inputs_) inputs_.push_back(twin_of(*input, nullptr));
  std::unordered_map<const Op*, Op*> twins;
  for (const auto& op : from.ops_) {
    poll_interruption();
    ops_.push_back(std::unique_ptr<Op>(new Op));
    Op* twin = ops_.back().get();
    twin->position_ = std::prev(ops_.end());
    twin->graph_ = this;
    twin->kind_ = op->kind_;
    twin->id_ = op->id_;
    twin->attributes = op->attributes;
    twin->settings = op->settings;
    twin->location = op->location;
    twin->origin = op->origin;
    for (const Value* result : op->results_) twin->results_.push_back(twin_of(*result, twin));
    twins[op.get()] = twin;
  }
  // What is read and what comes first may be listed anywhere, so it is linked last.
  for (const auto& op : from.ops_) {
    Op* twin = twins.at(op.get());
    for (const Op::Operand& operand : op->operands_)
      twin->operands_.push_back({operand.value == nullptr ? nullptr : values.at(operand.value), operand.use});
    for (const OrderEdges::Edge& edge : op->after.earlier_)
      twin->after.earlier_.push_back({twins.at(edge.op), edge.twin});
    for (const OrderEdges::Edge& edge : op->after.later_)
      twin->after.later_.push_back({twins.at(edge.op), edge.twin});
  }
  for (const auto& [name, value] : from.values_)
    for (const Use& use : value->uses_)
      values.at(value.get())->uses_.push_back({twins.at(use.user), use.index});
  for (const Value* output : from.outputs_) outputs_.push_back(values.at(output));
  next_op_id_ = from.next_op_id_;
}

Op* Graph::copy(const Op& op, std::span<Value* const> operands, Op* before) {
  Op* twin = create(op.kind(), operands, op.attributes, {}, before);
  twin->settings = op.settings;
  twin->location = op.location;
  twin->origin = op.origin;
  for (const Value* result : op.results_) twin->append_result(result->type(), result->name());
  return twin;
}

Graph* Module::clone_graph(const Graph& graph, std::string_view name_hint,
                           std::unordered_map<const Value*, Value*>* map) {
  std::unordered_map<const Value*, Value*> own;
  Graph* copy = add_graph(name_hint);
  copy->copy_contents(graph, map != nullptr ? *map : own);
  return copy;
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>();
  copy->attributes = attributes;
  copy->entry_points = entry_points;
  for (const Variable& variable : variables_) copy->add_variable(variable);
  for (const Stream& stream : streams_) copy->add_stream(stream);
  for (const Ring& ring : rings_) copy->add_ring(ring);
  for (const RemoteBuffer& buffer : remote_buffers_) copy->add_remote_buffer(buffer);
  for (const auto& graph : graphs_) {
    std::unordered_map<const Value*, Value*> values;
    Graph* twin = copy->add_graph(graph->name_);
    twin->copy_contents(*graph, values);
    twin->next_suffix_ = graph->next_suffix_;  // new values will get the same names in both
  }
  return copy;
}

}  // namespace ipu::ir
