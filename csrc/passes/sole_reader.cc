// See sole_reader.h.
#include "passes/sole_reader.h"

namespace ipu::passes {

ir::Op* made_for(const ir::Op& op, int i) {
  const ir::Value* value = op.operand(i);
  if (value == nullptr || value->producer() == nullptr || value->uses().size() != 1 || value->is_output())
    return nullptr;
  const ir::Settings &a = value->producer()->settings, &b = op.settings;
  const bool together = a.ipu == b.ipu && a.stage == b.stage && a.phase == b.phase && a.block == b.block &&
                        a.recompute == b.recompute && a.tile_set == b.tile_set;
  return together ? value->producer() : nullptr;
}

}  // namespace ipu::passes
