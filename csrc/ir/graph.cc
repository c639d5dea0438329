// Graphs: creation, erasure and order of ops; unique deterministic names.
#include <fmt/core.h>

#include <cctype>
#include <functional>
#include <mutex>

#include "ir/structure.h"
#include "support/error.h"
#include "support/fork.h"
#include "support/interruption.h"

namespace ipu::ir {
namespace {

// Names in the text are [A-Za-z0-9_.$/-]; other characters become '_' so that any hint can be printed.
std::string clean_name(std::string_view hint) {
  std::string name(hint);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '$' && c != '/' &&
        c != '-')
      c = '_';
  return name;
}

}  // namespace

// Kinds are interned for the life of the process: their number is bounded by the ops programs use.
const Op::Kind* Op::intern(std::string_view kind) {
  static auto& mutex = *new ForkSafe<std::mutex>;
  static auto& kinds = *new std::unordered_map<std::string_view, std::unique_ptr<const Kind>>;
  std::lock_guard lock(mutex);
  auto at = kinds.find(kind);
  if (at != kinds.end()) return at->second.get();
  std::unique_ptr<const Kind> made(new Kind{std::string(kind), structural_kind(kind)});
  const std::string_view name = made->name;
  return kinds.emplace(name, std::move(made)).first->second.get();
}

std::string Graph::unique_name(std::string_view hint) {
  std::string base = clean_name(hint);
  if (!base.empty() && !value_by_name_.contains(base)) return base;
  int& suffix = next_suffix_[base];
  if (!base.empty()) base += '_';
  while (true) {
    std::string name = base + std::to_string(base.empty() ? suffix++ : ++suffix);
    if (!value_by_name_.contains(name)) return name;
  }
}

Graph::~Graph() {
  Op* next = nullptr;
  for (Op* op = ops_.front().get(); op != nullptr; op = next) {
    next = OpList::next(op);
    for (Value* result : op->results_) destroy(result);
    destroy(op);
  }
  for (Value* input : inputs_) destroy(input);
}

void Graph::destroy(Op* op) {
  op->~Op();
  module_->op_memory_.give_back(op);
}

void Graph::destroy(Value* value) {
  value->~Value();
  module_->value_memory_.give_back(value);
}

Value* Graph::new_value(const Type& type, std::string_view name_hint) {
  Value* value = new (module_->value_memory_.take()) Value;
  value->name_ = unique_name(name_hint);
  value->type_ = module_->types_.keep(type);
  value->graph_ = this;
  value_by_name_.insert(value);
  return value;
}

void Graph::release(Value* value) {
  value_by_name_.erase(value);
  destroy(value);
}

void Graph::rename(Value* value, std::string_view name_hint) {
  value_by_name_.erase(value);
  value->name_ = unique_name(name_hint);
  value_by_name_.insert(value);
}

Value* Graph::add_input(const Type& type, std::string_view name_hint) {
  Value* value = new_value(type, name_hint);
  value->index_ = static_cast<int>(inputs_.size());
  inputs_.push_back(value);
  return value;
}

void Graph::erase_input(int i) {
  Value* value = inputs_[i];
  IPU_CHECK(value->is_unused(), fmt::format("input '{}' is still used", value->name()));
  inputs_.erase(inputs_.begin() + i);
  for (size_t k = i; k < inputs_.size(); ++k) inputs_[k]->index_ = static_cast<int>(k);
  release(value);
}

int Graph::append_output(Value* value) {
  IPU_CHECK(value->graph_ == this, fmt::format("output '{}' belongs to another graph", value->name()));
  outputs_.push_back(value);
  ++value->output_count_;
  return static_cast<int>(outputs_.size()) - 1;
}

void Graph::set_output(int i, Value* value) {
  IPU_CHECK(value->graph_ == this, fmt::format("output '{}' belongs to another graph", value->name()));
  --outputs_[i]->output_count_;
  outputs_[i] = value;
  ++value->output_count_;
}

void Graph::erase_output(int i) {
  --outputs_[i]->output_count_;
  outputs_.erase(outputs_.begin() + i);
}

Op* Graph::insert(const Op::Kind* kind, std::span<Value* const> operands, Op* before) {
  poll_interruption();
  IPU_CHECK(before == nullptr || before->graph_ == this, "insertion point belongs to another graph");
  Op* op = new (module_->op_memory_.take()) Op;
  ops_.insert(op, before);
  op->graph_ = this;
  op->kind_ = kind;
  op->id_ = next_op_id_++;
  is_numbered_ = is_numbered_ && before == nullptr;
  if (is_numbered_) op->number_ = op == ops_.front().get() ? 0 : previous(op)->number_ + 1;
  op->operands_.reserve(operands.size());
  for (Value* operand : operands) op->append_operand(operand);
  return op;
}

Op* Graph::create(std::string_view kind, std::span<Value* const> operands, Attributes attributes,
                  std::span<const Type> result_types, Op* before, std::string_view name_hint) {
  Op* op = insert(Op::intern(kind), operands, before);
  op->attributes = std::move(attributes);
  for (const Type& type : result_types) op->append_result(type, name_hint);
  return op;
}

void Graph::erase(Op* op) {
  IPU_CHECK(op->graph_ == this, fmt::format("op '{}' belongs to another graph", op->kind()));
  for (Value* result : op->results_)
    IPU_CHECK(result->is_unused(),
              fmt::format("result '{}' of '{}' is still used", result->name(), op->kind()));
  for (int i = 0; i < op->operand_count(); ++i) op->unlink(i);
  for (Value* result : op->results_) release(result);
  bridge(op);
  ops_.remove(op);
  destroy(op);
}

std::vector<Value*> Graph::take_over(Graph& from, std::span<Value* const> arguments, Op* before) {
  IPU_CHECK(&from != this && from.module_ == module_ && arguments.size() == from.inputs_.size(),
            fmt::format("@{} cannot take the ops of @{}", name_, from.name_));
  auto here = [&](Value* value) {
    return value->producer_ == nullptr ? arguments[static_cast<size_t>(value->index_)] : value;
  };
  is_numbered_ = false;
  while (!from.ops_.empty()) {
    poll_interruption();
    Op* op = from.ops_.front().get();
    IPU_CHECK(op->after.empty(), fmt::format("'{}' has order edges", op->kind()));
    from.ops_.remove(op);
    ops_.insert(op, before);
    op->graph_ = this;
    op->id_ = next_op_id_++;
    for (int i = 0; i < op->operand_count(); ++i) {
      Op::Operand& operand = op->operands_[static_cast<size_t>(i)];
      if (operand.value == nullptr) continue;
      operand.value = here(operand.value);
      operand.use = operand.value->uses_.size();
      operand.value->uses_.push_back({op, i});
    }
    for (Value* result : op->results_) {
      from.value_by_name_.erase(result);
      result->graph_ = this;
      result->name_ = unique_name(result->name_);
      value_by_name_.insert(result);
      result->uses_.clear();  // readers follow, and count themselves
      result->output_count_ = 0;
    }
  }
  std::vector<Value*> outputs;
  for (Value* output : from.outputs_) outputs.push_back(here(output));
  from.outputs_.clear();
  for (Value* input : from.inputs_) {
    input->uses_.clear();
    input->output_count_ = 0;
  }
  return outputs;
}

void Graph::move_before(Op* op, Op* before) {
  is_numbered_ = false;
  if (op == before) return;
  ops_.remove(op);
  ops_.insert(op, before);
}

}  // namespace ipu::ir
