#include "report/known_scalars.h"

#include <unordered_map>
#include <unordered_set>

#include "ir/structure.h"
#include "ops/definition/build.h"
#include "ops/reference_tensor.h"

namespace ipu::report {
namespace {

bool is_condition(const ir::Op& op) { return op.is(ir::kind::kIf); }

// What conditions may follow from: results of one element, backwards from the conditions.
std::unordered_set<const ir::Op*> behind_conditions(const ir::Graph& graph) {
  std::unordered_set<const ir::Op*> found;
  std::vector<const ir::Value*> open;
  for (const auto& op : graph.ops())
    if (is_condition(*op)) open.push_back(op->operand(0));
  while (!open.empty()) {
    const ir::Value* value = open.back();
    open.pop_back();
    const ir::Op* op = value == nullptr ? nullptr : value->producer();
    if (op == nullptr || op->result_count() != 1 || value->type().elements() != 1 || !found.insert(op).second)
      continue;
    for (int i = 0; i < op->operand_count(); ++i) open.push_back(op->operand(i));
  }
  return found;
}

}  // namespace

KnownScalars::KnownScalars(const ir::Graph& graph, bool has_index) : fixed_{0} {
  const std::unordered_set<const ir::Op*> behind = behind_conditions(graph);
  std::unordered_map<const ir::Value*, size_t> numbers;  // of those that conditions follow from
  std::unordered_set<const ir::Value*> on_index;
  if (has_index) {
    known_.insert(graph.inputs()[0]);
    on_index.insert(graph.inputs()[0]);
    numbers[graph.inputs()[0]] = 0;
  }
  std::vector<const ir::Op*> computed;
  for (const auto& op : graph.ops()) {
    if (op->result_count() != 1 || op->result()->type().elements() != 1) continue;
    if (!op->is(ir::kind::kConstant)) {
      computed.push_back(op.get());
      continue;
    }
    known_.insert(op->result());
    if (!behind.contains(op.get())) continue;
    numbers[op->result()] = fixed_.size();
    fixed_.push_back(ops::ReferenceTensor::from_constant(*op->attributes.constant("value")).values[0]);
  }
  for (const ir::Op* op : computed) {
    const ops::OpDef* definition = ops::definition(*op);
    if (definition == nullptr || !definition->expression) continue;
    bool is_known = true;
    for (int i = 0; i < op->operand_count(); ++i) is_known &= known_.contains(op->operand(i));
    if (!is_known) continue;
    known_.insert(op->result());
    if (!behind.contains(op)) continue;
    Step step{.dtype = op->result()->type().dtype};
    std::vector<ops::Expr> inputs;
    for (int i = 0; i < op->operand_count(); ++i) {
      inputs.push_back(ops::Expr::input(i, op->operand(i)->type().dtype));
      step.operands.push_back(numbers.at(op->operand(i)));
      if (on_index.contains(op->operand(i))) on_index.insert(op->result());
    }
    step.expression =
        definition->expression(inputs, ops::with_defaults(*definition, op->attributes), step.dtype)[0];
    numbers[op->result()] = fixed_.size() + steps_.size();
    steps_.push_back(std::move(step));
  }
  for (const auto& op : graph.ops()) {
    if (!is_condition(*op)) continue;
    const auto known = numbers.find(op->operand(0));
    conditions_.push_back(known == numbers.end() ? std::nullopt : std::optional(known->second));
    hang_on_index_ |= on_index.contains(op->operand(0));
  }
}

Conditions KnownScalars::conditions(int64_t index) const {
  std::vector<double> values = fixed_, operands;
  values[0] = static_cast<double>(index);
  for (const Step& step : steps_) {
    operands.clear();
    for (const size_t number : step.operands) operands.push_back(values[number]);
    values.push_back(ops::round_to(step.dtype, ops::evaluate(step.expression, operands)));
  }
  Conditions conditions;
  for (const std::optional<size_t> number : conditions_)
    conditions.push_back(number ? std::optional(values[*number] != 0) : std::nullopt);
  return conditions;
}

}  // namespace ipu::report
