// See sole_reader.h.
#include "passes/sole_reader.h"

namespace ipu::passes {

bool run_together(const ir::Op& one, const ir::Op& other) {
  const ir::Settings &a = one.settings, &b = other.settings;
  return a.ipu == b.ipu && a.stage == b.stage && a.phase == b.phase && a.block == b.block &&
         a.recompute == b.recompute && a.tile_set == b.tile_set;
}

ir::Op* made_for(const ir::Op& op, int i) {
  const ir::Value* value = op.operand(i);
  if (value == nullptr || value->producer() == nullptr || value->uses().size() != 1 || value->is_output())
    return nullptr;
  return run_together(*value->producer(), op) ? value->producer() : nullptr;
}

}  // namespace ipu::passes
