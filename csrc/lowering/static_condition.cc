// Conditions that follow from a loop's index alone, as those of pipeline stages do: evaluated for each
// iteration at compile time, so that a counter compare replaces the ops that compute them.
#include <unordered_map>

#include "ir/regions.h"
#include "lowering/nest.h"
#include "ops/definition/effects.h"
#include "ops/interpreter/interpreter.h"

namespace ipu::lowering {
namespace {

constexpr int64_t kMaxIterations = 1 << 16;  // above: computed at run time
constexpr int kMaxOps = 64;

class Evaluator {
 public:
  // Finds the ops and the loop `value` depends on; false when it depends on anything else.
  bool trace(const Scope& scope, const ir::Value* value) {
    if (known_.contains(value)) return true;
    const ir::Op* op = value->producer();
    if (op == nullptr) {
      if (scope.site == nullptr) return false;
      const ir::Region region(*scope.site);
      if (value->index() == region.index_input()) {
        if (loop != nullptr && loop != &scope) return false;
        loop = &scope;
        known_.emplace(value, true);
        return true;
      }
      const int operand = region.operand(value->index());
      if (region.is_carried(operand)) return false;
      alias_.emplace(value, scope.site->operand(operand));
      return trace(*scope.parent, scope.site->operand(operand));
    }
    if (!op->is(ir::kind::kConstant) && !ops::is_function(*op)) return false;
    if (value->type().elements() > 16 || static_cast<int>(order_.size()) >= kMaxOps) return false;
    for (int i = 0; i < op->operand_count(); ++i)
      if (op->operand(i) != nullptr && !trace(scope, op->operand(i))) return false;
    order_.push_back(op);
    known_.emplace(value, true);
    return true;
  }

  bool evaluate(const ir::Value* condition, int64_t index) {
    std::unordered_map<const ir::Value*, ops::ReferenceTensor> values;
    if (loop != nullptr) values[loop->graph->inputs()[0]] = {{DType::kI32, {}}, {static_cast<double>(index)}};
    for (const ir::Op* op : order_) {
      if (op->is(ir::kind::kConstant)) {
        values[op->result()] = ops::ReferenceTensor::from_constant(*op->attributes.constant("value"));
        continue;
      }
      std::vector<const ops::ReferenceTensor*> operands;
      for (int i = 0; i < op->operand_count(); ++i)
        operands.push_back(op->operand(i) == nullptr ? nullptr : &values.at(source(op->operand(i))));
      std::vector<ops::ReferenceTensor> results = ops::interpret_op(*op, operands, ops::Arithmetic::kNative);
      for (int i = 0; i < op->result_count(); ++i) values[op->result(i)] = std::move(results[i]);
    }
    return values.at(source(condition)).values.at(0) != 0;
  }

  const Scope* loop = nullptr;

 private:
  const ir::Value* source(const ir::Value* value) const {
    for (auto at = alias_.find(value); at != alias_.end(); at = alias_.find(value)) value = at->second;
    return value;
  }
  std::unordered_map<const ir::Value*, bool> known_;
  std::unordered_map<const ir::Value*, const ir::Value*> alias_;
  std::vector<const ir::Op*> order_;
};

}  // namespace

std::optional<StaticCondition> Nest::static_condition(const Scope& scope, const ir::Op& site) const {
  Evaluator evaluator;
  if (!evaluator.trace(scope, site.operand(0))) return std::nullopt;
  StaticCondition result;
  if (evaluator.loop == nullptr) {
    result.low = evaluator.evaluate(site.operand(0), 0);
    return result;
  }
  const int64_t trip = evaluator.loop->site->attributes.integer("trip");
  if (trip > kMaxIterations) return std::nullopt;
  result.loop = evaluator.loop;
  bool inside = false, ended = false;
  for (int64_t i = 0; i < trip; ++i) {
    if (evaluator.evaluate(site.operand(0), i)) {
      if (ended) return std::nullopt;  // not one interval
      if (!inside) result.low = i;
      inside = true;
      result.high = i + 1;
    } else if (inside) {
      ended = true;
    }
  }
  return result;
}

}  // namespace ipu::lowering
