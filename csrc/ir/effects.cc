// The effects of the ops that the IR itself knows.
#include "ir/effects.h"

#include <fmt/core.h>

#include "ir/structure.h"
#include "support/error.h"

namespace ipu::ir {

StateEffect structural_state(const Op& op) {
  IPU_CHECK(is_structural(op), fmt::format("'{}' is no structural op", op.kind()));
  const StructuralKind& row = *op.structure();
  if (row.has_side_effects) return StateEffect::kChanges;
  return row.reads_state ? StateEffect::kReads : StateEffect::kNone;
}

Effects structural_effects(const Op& op) {
  Effects effects;
  effects.state = structural_state(op);
  if (op.is(kind::kWrite)) {
    Write write{0, std::nullopt};
    if (op.attributes.has("sizes"))
      write.box = Box{op.attributes.integers("starts"), op.attributes.integers("sizes"),
                      op.attributes.integers("steps")};
    effects.writes.push_back(std::move(write));
    effects.unread.push_back(0);
    return effects;
  }
  for (int64_t operand : op.attributes.integers("modified", {}))
    effects.writes.push_back({static_cast<int>(operand), std::nullopt});
  return effects;
}

}  // namespace ipu::ir
