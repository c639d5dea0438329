// Copies of graphs and modules. Names, ids and the order of uses are those of the original, so that whatever
// is done to a copy gives what it would have given there.
#include "ir/module.h"
#include "support/interruption.h"

namespace ipu::ir {

void Graph::copy_contents(const Graph& from, std::unordered_map<const Value*, Value*>* values) {
  attributes = from.attributes;
  const bool same_module = module_ == from.module_;
  std::unordered_map<const Type*, const Type*> types;  // few
  auto type_of = [&](const Value& value) {
    if (same_module) return value.type_;
    const Type*& twin = types[value.type_];
    if (twin == nullptr) twin = module_->types_.keep(*value.type_);
    return twin;
  };
  auto twin_of = [&](const Value& value, Op* producer) {
    Value* twin = new (module_->value_memory_.take()) Value;
    twin->name_ = value.name_;
    twin->type_ = type_of(value);
    twin->producer_ = producer;
    twin->index_ = value.index_;
    twin->graph_ = this;
    twin->output_count_ = value.output_count_;
    twin->ipu = value.ipu;
    twin->by_reference = value.by_reference;
    value_by_name_.insert(twin);
    if (values != nullptr) values->emplace(&value, twin);
    return twin;
  };
  for (const Value* input : from.inputs_) inputs_.push_back(twin_of(*input, nullptr));
  std::vector<Op*> twins(static_cast<size_t>(from.next_op_id_));  // by id
  auto op_twin = [&](const Op* op) { return twins[static_cast<size_t>(op->id_)]; };
  for (const auto& op : from.ops_) {
    poll_interruption();
    Op* twin = new (module_->op_memory_.take()) Op;
    ops_.insert(twin, nullptr);
    twin->graph_ = this;
    twin->kind_ = op->kind_;
    twin->id_ = op->id_;
    twin->attributes = op->attributes;
    twin->settings = op->settings;
    twin->location = op->location;
    twin->origin = op->origin;
    twin->results_.reserve(op->results_.size());
    for (const Value* result : op->results_) twin->results_.push_back(twin_of(*result, twin));
    twins[static_cast<size_t>(op->id_)] = twin;
  }
  // What is read and what comes first may be listed anywhere, so it is linked last.
  auto value_twin = [&](const Value* value) {
    const auto index = static_cast<size_t>(value->index_);
    return value->producer_ == nullptr ? inputs_[index] : op_twin(value->producer_)->results_[index];
  };
  auto link_uses = [&](const Value& value) {
    Value* twin = value_twin(&value);
    twin->uses_.reserve(value.uses_.size());
    for (const Use& use : value.uses_) twin->uses_.push_back({op_twin(use.user), use.index});
  };
  for (const Value* input : from.inputs_) link_uses(*input);
  for (const auto& op : from.ops_) {
    Op* twin = op_twin(op.get());
    twin->operands_.reserve(op->operands_.size());
    for (const Op::Operand& operand : op->operands_)
      twin->operands_.push_back(
          {operand.value == nullptr ? nullptr : value_twin(operand.value), operand.use});
    for (const Value* result : op->results_) link_uses(*result);
    if (op->after.lists_ == nullptr) continue;
    OrderEdges::Lists& edges = twin->after.lists();
    for (const OrderEdges::Edge& edge : op->after.lists_->earlier)
      edges.earlier.push_back({op_twin(edge.op), edge.twin});
    for (const OrderEdges::Edge& edge : op->after.lists_->later)
      edges.later.push_back({op_twin(edge.op), edge.twin});
  }
  for (const Value* output : from.outputs_) outputs_.push_back(value_twin(output));
  next_op_id_ = from.next_op_id_;
}

Op* Graph::copy(const Op& op, std::span<Value* const> operands, Op* before) {
  Op* twin = insert(op.kind_, operands, before);
  twin->attributes = op.attributes;
  twin->settings = op.settings;
  twin->location = op.location;
  twin->origin = op.origin;
  for (const Value* result : op.results_) twin->append_result(result->type(), result->name());
  return twin;
}

Graph* Module::clone_graph(const Graph& graph, std::string_view name_hint,
                           std::unordered_map<const Value*, Value*>* map) {
  Graph* copy = add_graph(name_hint);
  copy->copy_contents(graph, map);
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
    Graph* twin = copy->add_graph(graph->name_);
    twin->copy_contents(*graph, nullptr);
    twin->next_suffix_ = graph->next_suffix_;  // new values will get the same names in both
  }
  return copy;
}

}  // namespace ipu::ir
