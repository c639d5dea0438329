// Evaluates ops whose operands are constants, with the interpreter in native arithmetic.
// Leaves alone: random ops and ops with effects, results in a layout of their own, and whatever would make
// constants grow (an expanded scalar stays a scalar and an expand). Constants nobody reads any more are left
// for dce.
#include "ir/builder.h"
#include "ir/structure.h"
#include "ops/definition/effects.h"
#include "ops/interpreter/interpreter.h"
#include "ops/linear/half_partials.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

constexpr int64_t kSmallElements = 1024;       // results up to this size are folded whatever the operands
constexpr int64_t kLargestElements = 1 << 20;  // the interpreter is slow: bounds compile time

const ConstantData* constant_of(const ir::Value* value) {
  if (value == nullptr || value->producer() == nullptr || !value->producer()->is(ir::kind::kConstant))
    return nullptr;
  return value->producer()->attributes.constant("value").get();
}

class FoldConstants : public OpPass {
 public:
  bool may_apply(const ir::Op& op) const override {
    if (!ops::is_function(op) || !ops::definition(op)->reference) return false;
    int64_t given = 0, made = 0;
    for (int i = 0; i < op.operand_count(); ++i) {
      const ConstantData* data = constant_of(op.operand(i));
      if (data == nullptr && op.operand(i) != nullptr) return false;
      if (data != nullptr) given += element_count(data->shape);
    }
    for (int i = 0; i < op.result_count(); ++i) {
      const ir::Type& type = op.result(i)->type();
      if (!type.layout.is_plain() || type.dtype == DType::kF64) return false;
      made += type.elements();
    }
    return op.result_count() > 0 && std::max(given, made) <= kLargestElements &&
           (made <= kSmallElements || made <= given) && !ops::has_half_partials(op);
  }

  void apply(ir::Op& op, const PassContext& context) override {
    std::vector<ops::ReferenceTensor> operands;
    for (int i = 0; i < op.operand_count(); ++i)
      if (op.operand(i) != nullptr)
        operands.push_back(ops::ReferenceTensor::from_constant(*constant_of(op.operand(i))));
    std::vector<const ops::ReferenceTensor*> pointers;
    size_t next = 0;
    for (int i = 0; i < op.operand_count(); ++i)
      pointers.push_back(op.operand(i) == nullptr ? nullptr : &operands[next++]);
    std::vector<ops::ReferenceTensor> results = ops::interpret_op(op, pointers, ops::Arithmetic::kNative);

    ir::Graph* graph = op.graph();
    ir::Builder builder(graph, &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    std::vector<std::pair<ir::Value*, std::string>> names;
    for (int i = 0; i < op.result_count(); ++i) {
      ir::Value* folded = builder.constant(results[static_cast<size_t>(i)].to_constant());
      if (!op.result(i)->is_unused()) op.result(i)->replace_all_uses_with(folded);
      names.emplace_back(folded, op.result(i)->name());
    }
    graph->erase(&op);
    for (auto& [value, name] : names) graph->rename(value, name);
    context.count("ops folded");
  }
};

IPU_REGISTER_PASS(FoldConstants, "fold-constants", "Evaluates ops whose operands are constants.",
                  {"ops folded"});

}  // namespace
}  // namespace ipu::passes
