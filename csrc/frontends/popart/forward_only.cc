#include "frontends/popart/forward_only.h"

#include <unordered_set>
#include <vector>

#include "ir/structure.h"
#include "ops/definition/op_def.h"
#include "ops/definition/op_gradients.h"

namespace ipu::frontends::popart {

void check_backward_pass(const ir::Value* loss) {
  std::vector<const ir::Value*> open{loss};
  std::unordered_set<const ir::Value*> seen;
  while (!open.empty()) {
    const ir::Value* value = open.back();
    open.pop_back();
    if (value == nullptr || !is_floating_point(value->type().dtype) || !seen.insert(value).second) continue;
    const ir::Op* op = value->producer();
    if (op == nullptr || op->is("detach")) continue;
    if (op->is("forward_only")) ops::not_differentiable(*op, "but " + ops::definition(*op)->gradient_refusal);
    for (const ir::Graph* callee : ir::called_graphs(*op))
      open.insert(open.end(), callee->outputs().begin(), callee->outputs().end());
    for (int i = 0; i < op->operand_count(); ++i) open.push_back(op->operand(i));
  }
}

}  // namespace ipu::frontends::popart
