#include "lowering/kernel_choice.h"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/kernel_table.h"
#include "lowering/nest.h"
#include "support/error.h"

namespace ipu::lowering {

std::optional<ops::KernelChoice> choose_kernel(const ir::Op& op, std::span<const TensorSpec> operands,
                                               std::span<const TensorSpec> results) {
  const ops::OpDef* def = ops::definition(op);
  if (def == nullptr || !def->kernels) return std::nullopt;
  uint64_t absent = 0;
  for (int i = 0; i < std::min(64, op.operand_count()); ++i)
    if (op.operand(i) == nullptr) absent |= uint64_t{1} << i;
  for (ops::KernelChoice& choice : def->kernels(op)) {
    // A packed weight has lost its shape; the convolution kernel reads it from an attribute.
    if (def->has(ops::kConvolution) && operands.size() > 1 && operands[1].layout.is_blocked())
      choice.attributes.set("kernel_shape", op.operand(1)->type().shape);
    const kernels::KernelDef* kernel = kernels::find_kernel(choice.id);
    if (kernel != nullptr && kernel->prepare({operands, results, choice.attributes, absent}) != nullptr)
      return std::move(choice);
  }
  return std::nullopt;
}

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
