#include "lowering/kernel_choice.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"

namespace ipu::lowering {

bool may_overwrite(const ir::Op& op, const ops::KernelChoice& choice, int i, const TensorSpec& operand,
                   std::span<const TensorSpec> results) {
  if (results.empty() || results[0].dtype == DType::kF64) return false;
  if (operand.layout.is_plain() && !operand.is_contiguous()) return false;
  // The pointwise VM loads all operands of a block before it stores the block, so that any result with elements
  // of the same size may take the place of this one.
  if (choice.id == "pointwise")
    return std::any_of(results.begin(), results.end(), [&](const TensorSpec& result) {
      return operand.layout == result.layout && operand.shape == result.shape &&
             size_in_bytes(operand.dtype) == size_in_bytes(result.dtype);
    });
  const ops::OpDef* def = ops::definition(op);
  return i == 0 && def != nullptr && def->has(ops::kMayReuseFirstOperand) &&
         operand.stored_bytes() == results[0].stored_bytes();
}

void throw_no_kernel(const ir::Op& op) {
  std::string text = fmt::format("no kernel: '{}' cannot run on", op.kind());
  for (int i = 0; i < op.operand_count(); ++i)
    text += (i > 0 ? ", " : " ") +
            (op.operand(i) == nullptr ? std::string("nothing") : ir::to_string(op.operand(i)->type()));
  throw Error(ErrorCode::kUnsupportedOps,
              text + ". Use another dtype or shape, or say it with other operations.")
      .at(ir::user_line(op.location));
}

}  // namespace ipu::lowering
