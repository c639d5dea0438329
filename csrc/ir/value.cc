// Values and ops: use lists with constant-time link and unlink (each operand knows its place in the value's
// list).
#include <fmt/core.h>

#include "ir/module.h"
#include "support/error.h"

namespace ipu::ir {

void Value::set_type(const Type& type) { type_ = graph_->module()->types_.keep(type); }

void Value::replace_all_uses_with(Value* other) {
  IPU_CHECK(other != this, fmt::format("value '{}' cannot replace itself", name_));
  while (!uses_.empty()) {
    Use use = uses_.back();
    use.user->set_operand(use.index, other);
  }
  if (output_count_ == 0) return;
  for (size_t i = 0; i < graph_->outputs().size(); ++i)
    if (graph_->outputs()[i] == this) graph_->set_output(static_cast<int>(i), other);
}

void Op::unlink(int i) {
  Operand& operand = operands_[i];
  if (operand.value == nullptr) return;
  auto& uses = operand.value->uses_;
  if (operand.use + 1 != uses.size()) {
    uses[operand.use] = uses.back();
    const Use& moved = uses[operand.use];
    moved.user->operands_[moved.index].use = operand.use;
  }
  uses.pop_back();
  operand.value = nullptr;
}

void Op::set_operand(int i, Value* value) {
  IPU_CHECK(value == nullptr || value->graph_ == graph_,
            fmt::format("operand of '{}' belongs to another graph", kind()));
  unlink(i);
  if (value == nullptr) return;
  operands_[i] = {value, value->uses_.size()};
  value->uses_.push_back({this, i});
}

void Op::append_operand(Value* value) {
  operands_.push_back({});
  set_operand(operand_count() - 1, value);
}

void Op::erase_operand(int i) {
  for (int k = i; k + 1 < operand_count(); ++k) {
    Value* next = operands_[k + 1].value;
    set_operand(k, next);
  }
  unlink(operand_count() - 1);
  operands_.pop_back();
}

Value* Op::append_result(const Type& type, std::string_view name_hint) {
  Value* value = graph_->new_value(type, name_hint);
  value->producer_ = this;
  value->index_ = result_count();
  results_.push_back(value);
  return value;
}

void Op::erase_result(int i) {
  Value* value = results_[i];
  IPU_CHECK(value->is_unused(), fmt::format("result '{}' is still used", value->name()));
  results_.erase(static_cast<size_t>(i));
  for (int k = i; k < result_count(); ++k) results_[k]->index_ = k;
  graph_->release(value);
}

}  // namespace ipu::ir
