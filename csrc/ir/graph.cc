// Graphs: creation, erasure and order of ops; unique deterministic names.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
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
  static auto& kinds = *new std::map<std::string, Kind, std::less<>>;
  std::lock_guard lock(mutex);
  auto at = kinds.find(kind);
  if (at == kinds.end())
    at = kinds.emplace(std::string(kind), Kind{std::string(kind), structural_kind(kind)}).first;
  return &at->second;
}

std::string Graph::unique_name(std::string_view hint) {
  std::string base = clean_name(hint);
  if (!base.empty() && !values_.contains(base)) return base;
  int& suffix = next_suffix_[base];
  while (true) {
    std::string name = base.empty() ? std::to_string(suffix++) : fmt::format("{}_{}", base, ++suffix);
    if (!values_.contains(name)) return name;
  }
}

Value* Graph::new_value(Type type, std::string_view name_hint) {
  std::unique_ptr<Value> owned(new Value);
  Value* value = owned.get();
  value->name_ = unique_name(name_hint);
  value->type_ = std::move(type);
  value->graph_ = this;
  values_.emplace(value->name_, std::move(owned));
  return value;
}

void Graph::release(Value* value) { values_.erase(value->name_); }

void Graph::rename(Value* value, std::string_view name_hint) {
  auto node = values_.extract(value->name_);
  std::string name = unique_name(name_hint);
  value->name_ = std::move(name);
  node.key() = value->name_;
  values_.insert(std::move(node));
}

Value* Graph::find_value(std::string_view name) const {
  auto at = values_.find(name);
  return at == values_.end() ? nullptr : at->second.get();
}

Value* Graph::add_input(Type type, std::string_view name_hint) {
  Value* value = new_value(std::move(type), name_hint);
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

Op* Graph::create(std::string_view kind, std::span<Value* const> operands, Attributes attributes,
                  std::span<const Type> result_types, Op* before, std::string_view name_hint) {
  poll_interruption();
  IPU_CHECK(before == nullptr || before->graph_ == this, "insertion point belongs to another graph");
  auto position = before == nullptr ? ops_.end() : before->position_;
  position = ops_.insert(position, std::unique_ptr<Op>(new Op));
  Op* op = position->get();
  op->position_ = position;
  op->graph_ = this;
  op->kind_ = Op::intern(kind);
  op->id_ = next_op_id_++;
  is_numbered_ = is_numbered_ && before == nullptr;
  if (is_numbered_) op->number_ = position == ops_.begin() ? 0 : (*std::prev(position))->number_ + 1;
  op->attributes = std::move(attributes);
  op->operands_.reserve(operands.size());
  for (Value* operand : operands) op->append_operand(operand);
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
  ops_.erase(op->position_);
}

void Graph::move_before(Op* op, Op* before) {
  is_numbered_ = false;
  ops_.splice(before == nullptr ? ops_.end() : before->position_, ops_, op->position_);
}

Op* Graph::next(const Op* op) const {
  auto at = std::next(op->position_);
  return at == ops_.end() ? nullptr : at->get();
}

Op* Graph::previous(const Op* op) const {
  return op->position_ == ops_.begin() ? nullptr : std::prev(op->position_)->get();
}

}  // namespace ipu::ir
