#include "frontends/torch/capture/memory/known_values.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/memory/without_capture.h"
#include "frontends/torch/host_memory.h"
#include "ir/structure.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_def.h"
#include "ops/interpreter/interpreter.h"

namespace ipu::frontends::torch_frontend {
namespace {

// The interpreter is slow, and needs eight bytes for each element.
constexpr int64_t kLargestElements = 1 << 24;

using Found = std::unordered_map<const ir::Value*, KnownValue>;

bool can_compute(const ir::Op& op) {
  const ops::OpDef* definition = ops::definition(op);
  if (definition == nullptr || !definition->reference || !ops::is_function(op)) return false;
  for (int i = 0; i < op.result_count(); ++i)
    if (op.result(i)->type().elements() > kLargestElements) return false;
  return true;
}

bool may_be_known(const ModelTensor& state) {
  const at::Tensor& host = state.slot->host;
  return state.slot->base->generation == 1 && !state.is_moved() && !state.updatable && host.defined() &&
         !at::isFloatingType(host.scalar_type());
}

[[noreturn]] void refuse_without_value(const ModelTensor& state) {
  throw Error(ErrorCode::kValueNeeded,
              "value needed: forward() uses the " + state.described() +
                  " as a Python number, a size or a mask, and it is on meta: it has no values.\n"
                  "  try:      make it on the CPU: a dry run takes models of which a part has values")
      .at(current_user_line());
}

std::optional<KnownValue> value_at_entry(const ir::Value* input, const States& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].input != input || !may_be_known(states[i])) continue;
    if (states[i].slot->host.is_meta()) refuse_without_value(states[i]);
    const WithoutCapture below;
    const at::Tensor host = to_device_type(states[i].slot->host);
    return KnownValue{ops::ReferenceTensor::from_bytes(input->type(), host_data(host)), {i}};
  }
  return std::nullopt;
}

// The results of an op whose operands have been found.
void compute(const ir::Op& op, Found& found) {
  std::vector<const ops::ReferenceTensor*> operands;
  std::set<size_t> states;
  for (int i = 0; i < op.operand_count(); ++i) {
    const ir::Value* operand = op.operand(i);
    operands.push_back(operand == nullptr ? nullptr : &found.at(operand).value);
    if (operand != nullptr) states.insert(found.at(operand).states.begin(), found.at(operand).states.end());
  }
  std::vector<ops::ReferenceTensor> results = ops::interpret_op(op, operands, ops::Arithmetic::kNative);
  for (int i = 0; i < op.result_count(); ++i)
    found.try_emplace(op.result(i), KnownValue{std::move(results[static_cast<size_t>(i)]), states});
}

}  // namespace

bool is_known(const ModelTensor& state) { return may_be_known(state) && !state.slot->host.is_meta(); }

// Operands first, with a stack of its own: chains of operations may be long.
std::optional<KnownValue> known_value(const ir::Value* value, const States& states) {
  Found found;
  std::vector<const ir::Value*> open{value};
  while (!open.empty()) {
    const ir::Value* next = open.back();
    const ir::Op* op = next->producer();
    if (found.contains(next)) {
      open.pop_back();
    } else if (op == nullptr) {
      std::optional<KnownValue> known = value_at_entry(next, states);
      if (!known) return std::nullopt;
      found.emplace(next, std::move(*known));
    } else if (op->is(ir::kind::kConstant)) {
      found.emplace(next,
                    KnownValue{ops::ReferenceTensor::from_constant(*op->attributes.constant("value")), {}});
    } else {
      if (!can_compute(*op)) return std::nullopt;
      const size_t before = open.size();
      for (int i = 0; i < op->operand_count(); ++i)
        if (op->operand(i) != nullptr && !found.contains(op->operand(i))) open.push_back(op->operand(i));
      if (open.size() == before) compute(*op, found);
    }
  }
  return std::move(found.at(value));
}

}  // namespace ipu::frontends::torch_frontend
