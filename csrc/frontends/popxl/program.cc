#include "frontends/popxl/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "frontends/popxl/infer.h"
#include "frontends/popxl/infer_scratch.h"
#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void invalid(std::string text) { throw Error(ErrorCode::kInvalidIr, std::move(text)); }

std::string described(const Op& op) { return fmt::format("op {} ({})", op.id(), op.kind().type); }

}  // namespace

std::string to_string(const TensorInfo& info) {
  std::string text = fmt::format("{}(", to_string(info.dtype));
  for (size_t i = 0; i < info.shape.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", info.shape[i]);
  return text + ")";
}

std::string described(const Graph& graph) {
  return graph.is_main() ? "the main graph" : fmt::format("graph '{}'", graph.id());
}

std::string_view Tensor::name() const {
  const std::string_view id = id_;
  return graph_->is_main() ? id : id.substr(std::min(id.size(), graph_->id().size() + 1));
}

// --- ops

void CalledGraphs::set(std::vector<Graph*> graphs) {
  for (Graph* graph : graphs_) graph->sites_.erase(owner_);
  graphs_ = std::move(graphs);
  for (Graph* graph : graphs_) graph->sites_.insert(owner_);
}

Graph* CalledGraphs::at(size_t i) const {
  if (i >= graphs_.size())
    throw Error(ErrorCode::kInvalidIr,
                fmt::format("graph not set: {} runs {} graphs, and graph {} is asked for", described(*owner_),
                            graphs_.size(), i));
  return graphs_[i];
}

bool CalledGraphs::contains(const Graph& graph) const {
  return std::find(graphs_.begin(), graphs_.end(), &graph) != graphs_.end();
}

Tensor* Op::input(int i) const {
  const auto found = inputs_.find(i);
  return found == inputs_.end() ? nullptr : found->second;
}

Tensor* Op::output(int i) const {
  const auto found = outputs_.find(i);
  return found == outputs_.end() ? nullptr : found->second;
}

void Op::connect_input(int i, Tensor& tensor) {
  if (&tensor.graph() != graph_)
    invalid(fmt::format("tensor of another graph: '{}' is in {}, {} in {}", tensor.id(),
                        described(tensor.graph()), described(*this), described(*graph_)));
  disconnect_input(i);
  inputs_[i] = &tensor;
  tensor.uses_.push_back({this, i});
}

void Op::disconnect_input(int i) {
  const auto found = inputs_.find(i);
  if (found == inputs_.end()) return;
  auto& uses = found->second->uses_;
  uses.erase(std::find_if(uses.begin(), uses.end(),
                          [&](const Tensor::Use& use) { return use.op == this && use.input == i; }));
  inputs_.erase(found);
}

void Op::connect_output(int i, Tensor& tensor) {
  if (&tensor.graph() != graph_)
    invalid(fmt::format("tensor of another graph: '{}' is in {}, {} in {}", tensor.id(),
                        described(tensor.graph()), described(*this), described(*graph_)));
  if (tensor.producer_ != nullptr && tensor.producer_ != this)
    invalid(fmt::format("tensor with two producers: '{}' is an output of {}", tensor.id(),
                        described(*tensor.producer_)));
  disconnect_output(i);
  outputs_[i] = &tensor;
  tensor.producer_ = this;
  tensor.producer_output_ = i;
}

Tensor& Op::create_output(int i, std::string_view id) {
  Tensor& tensor = graph_->create_tensor(id, {}, TensorType::kActGrad);
  connect_output(i, tensor);
  return tensor;
}

void Op::disconnect_output(int i) {
  const auto found = outputs_.find(i);
  if (found == outputs_.end()) return;
  found->second->producer_ = nullptr;
  outputs_.erase(found);
}

void Op::setup() {
  std::map<int, TensorInfo> infos = infer(*this);
  for (auto& [i, info] : infos) {
    const auto found = outputs_.find(i);
    if (found != outputs_.end()) found->second->info = std::move(info);
  }
}

// --- graphs

std::string Graph::scoped(std::string_view name) const {
  return is_main() ? std::string(name) : fmt::format("{}/{}", id_, name);
}

std::string Graph::unique_id(std::string_view name) {
  std::string id = scoped(name);
  if (!tensors_.contains(id)) return id;
  while (true) {
    std::string candidate = program_->intermediate_id(id);
    if (!tensors_.contains(candidate)) return candidate;
  }
}

Tensor& Graph::create_tensor(std::string_view id, TensorInfo info, TensorType type) {
  if (tensors_.contains(id))
    invalid(fmt::format("tensor id taken: {} has a tensor '{}'", described(*this), id));
  Tensor& tensor = *owned_tensors_.emplace_back(std::make_unique<Tensor>());
  tensor.own_ = std::prev(owned_tensors_.end());
  tensor.id_ = id;
  tensor.number_ = program_->next_tensor_++;
  tensor.graph_ = this;
  tensor.info = std::move(info);
  tensor.type = type;
  tensors_.emplace(tensor.id_, &tensor);
  program_->tensor_by_number_.emplace(tensor.number_, &tensor);
  return tensor;
}

Tensor* Graph::find_tensor(std::string_view id) const {
  const auto found = tensors_.find(id);
  return found == tensors_.end() ? nullptr : found->second;
}

Tensor& Graph::tensor(std::string_view id) const {
  Tensor* found = find_tensor(id);
  if (found == nullptr) invalid(fmt::format("unknown tensor: {} has no tensor '{}'", described(*this), id));
  return *found;
}

void Graph::erase_tensor(Tensor& tensor) {
  if (tensor.producer_ != nullptr || !tensor.uses_.empty())
    invalid(
        fmt::format("tensor in use: '{}' is connected to {}; disconnect it first", tensor.id(),
                    described(tensor.producer_ != nullptr ? *tensor.producer_ : *tensor.uses_.front().op)));
  for (auto* list : {&inputs, &outputs})
    list->erase(std::remove(list->begin(), list->end(), &tensor), list->end());
  by_reference.erase(&tensor);
  tensors_.erase(tensor.id_);
  program_->tensor_by_number_.erase(tensor.number_);
  owned_tensors_.erase(tensor.own_);
}

Op& Graph::create_op(const OpKind& kind, OperatorIdentifier identifier, Attributes attributes,
                     OpSettings settings) {
  Op& op = *owned_ops_.emplace_back(std::make_unique<Op>());
  op.own_ = std::prev(owned_ops_.end());
  op.id_ = program_->next_op_++;
  op.kind_ = &kind;
  op.graph_ = this;
  op.identifier = std::move(identifier);
  op.attributes = std::move(attributes);
  op.settings = std::move(settings);
  ops_.emplace_hint(ops_.end(), op.id_, &op);
  program_->op_by_id_.emplace(op.id_, &op);
  return op;
}

Op& Graph::clone_op(const Op& op) {
  Op& copy = create_op(op.kind(), op.identifier, op.attributes, op.settings);
  copy.callees = op.callees;
  copy.callee_inputs = op.callee_inputs;
  copy.callee_outputs = op.callee_outputs;
  copy.modified = op.modified;
  copy.transfers = op.transfers;
  if (op.forward != nullptr) copy.forward = std::make_unique<const ForwardOp>(*op.forward);
  return copy;
}

void Graph::erase_op(Op& op) {
  while (!op.inputs_.empty()) op.disconnect_input(op.inputs_.begin()->first);
  while (!op.outputs_.empty()) op.disconnect_output(op.outputs_.begin()->first);
  while (!op.before_.empty()) remove_edge(**op.before_.begin(), op);
  while (!op.after_.empty()) remove_edge(op, **op.after_.begin());
  program_->op_by_id_.erase(op.id_);
  ops_.erase(op.id_);
  owned_ops_.erase(op.own_);
}

Op& Graph::op(int64_t id) const {
  const auto found = ops_.find(id);
  if (found == ops_.end()) invalid(fmt::format("unknown op: {} has no op {}", described(*this), id));
  return *found->second;
}

void Graph::add_edge(Op& before, Op& after, bool tied) {
  if (&before.graph() != this || &after.graph() != this)
    invalid(fmt::format("ordering across graphs: {} and {}; both must be in {}", described(before),
                        described(after), described(*this)));
  if (&before == &after) invalid(fmt::format("ordering of an op with itself: {}", described(before)));
  before.after_.insert(&after);
  after.before_.insert(&before);
  if (tied) before.tied_.insert(&after);
}

void Graph::remove_edge(Op& before, Op& after) {
  before.after_.erase(&after);
  before.tied_.erase(&after);
  after.before_.erase(&before);
}

std::vector<Graph*> Graph::callees() const {
  std::vector<Graph*> found;
  std::set<const Graph*> seen;
  for (const auto& [id, op] : ops_)
    for (Graph* callee : op->callees)
      if (seen.insert(callee).second) found.push_back(callee);
  return found;
}

// --- the program

Program::Program() {
  static std::atomic<int64_t> next{0};
  id_ = next++;
  main_ = &create_graph("");
}
Program::~Program() {
  for (const auto& [id, graph] : graphs_)
    for (const auto& [op_id, op] : graph->ops()) op->callees = std::vector<Graph*>();
}

Graph& Program::create_graph(std::string_view id) {
  if (graphs_.contains(id)) invalid(fmt::format("graph id taken: there is a graph '{}'", id));
  auto graph = std::make_unique<Graph>();
  graph->id_ = id;
  graph->number_ = next_graph_++;
  graph->program_ = this;
  Graph& made = *graph;
  graph_by_number_.emplace(made.number_, &made);
  graphs_.emplace(std::string(id), std::move(graph));
  return made;
}

Graph* Program::find_graph(std::string_view id) const {
  const auto found = graphs_.find(id);
  return found == graphs_.end() ? nullptr : found->second.get();
}

Graph& Program::graph(std::string_view id) const {
  Graph* found = find_graph(id);
  if (found == nullptr) invalid(fmt::format("unknown graph: there is no graph '{}'", id));
  return *found;
}

Graph& Program::graph_of_number(int number) const {
  const auto found = graph_by_number_.find(number);
  if (found == graph_by_number_.end()) invalid(fmt::format("graph was removed: number {}", number));
  return *found->second;
}

void Program::erase_graph(Graph& graph) {
  if (graph.is_main()) invalid("the main graph cannot be removed");
  for (const Op* op : graph.sites())
    if (&op->graph() != &graph)
      invalid(fmt::format("graph in use: {} calls '{}'; erase it first", described(*op), graph.id()));
  while (!graph.ops_.empty()) graph.erase_op(*graph.ops_.begin()->second);
  while (!graph.tensors_.empty()) graph.erase_tensor(*graph.tensors_.begin()->second);
  graph_by_number_.erase(graph.number_);
  graphs_.erase(graphs_.find(graph.id_));
}

Tensor& Program::tensor_of_number(int64_t number) const {
  const auto found = tensor_by_number_.find(number);
  if (found == tensor_by_number_.end()) invalid(fmt::format("tensor was removed: number {}", number));
  return *found->second;
}

Op& Program::op_of_id(int64_t id) const {
  const auto found = op_by_id_.find(id);
  if (found == op_by_id_.end()) invalid(fmt::format("op was removed: id {}", id));
  return *found->second;
}

std::string Program::unique_subgraph_id(std::string_view base) {
  return fmt::format("{}_subgraph({})", base, next_subgraph_++);
}

std::string Program::intermediate_id(std::string_view base) {
  return fmt::format("{}__t{}", base, next_suffix_++);
}

InferenceScratch& Program::scratch() {
  if (scratch_ == nullptr) scratch_ = std::make_unique<InferenceScratch>();
  return *scratch_;
}

}  // namespace ipu::popxl
