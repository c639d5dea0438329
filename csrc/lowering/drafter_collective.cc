// Ops that meet the same op of other replicas.
#include <fmt/core.h>

#include "lowering/drafter.h"
#include "support/error.h"

namespace ipu::lowering {

void Drafter::emit_all_reduce(const Scope& scope, const ir::Op& op) {
  const std::string reduction = op.attributes.text("op", "sum");
  if (!op.is("all_reduce") || reduction != "sum")
    throw Error(ErrorCode::kUnsupportedOps,
                fmt::format("unsupported collective: '{}'{} cannot be lowered yet.", op.kind(),
                            op.is("all_reduce") ? fmt::format(" with op=\"{}\"", reduction) : ""))
        .at(ir::user_line(op.location));
  DraftOperand operand;
  static_cast<View&>(operand) = contiguous(scope, op.operand(0));
  operand.in_place = true;  // sums are made block by block
  View result = new_buffer(operand.spec, op.result()->name());
  DraftStep& step = add(program::Opcode::kCollective, shared_.origin(op));
  step.kernel = "all_reduce_sum";
  step.attributes.set("group_size", op.attributes.integer("group_size", 0));
  step.attributes.set("group_stride", op.attributes.integer("group_stride", 1));
  step.operands.push_back(std::move(operand));
  step.results.push_back(result);
  place_of(scope, op.result()) = result;
}

}  // namespace ipu::lowering
