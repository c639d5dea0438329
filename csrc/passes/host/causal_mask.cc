// See causal_mask.h.
#include "passes/host/causal_mask.h"

namespace ipu::passes {

bool is_causal(const ir::Value* condition) {
  const ir::Op* op = condition->producer();
  if (op == nullptr || !op->is("greater_equal")) return false;
  for (int64_t i : {0, 1}) {
    const ir::Op* index = op->operand(static_cast<int>(i))->producer();
    if (index == nullptr || !index->is("iota") || index->attributes.integer("dim", 0) != i) return false;
  }
  return op->operand(0)->type().shape.size() == 2;
}

}  // namespace ipu::passes
