// See kernel_choice.h.
#include "ops/definition/kernel_choice.h"

#include <algorithm>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/error.h"

namespace ipu::ops {

TensorSpec spec_of(const ir::Type& type) {
  TensorSpec spec = TensorSpec::plain(type.dtype, type.shape);
  spec.layout = type.layout;
  if (type.layout.is_blocked()) {
    IPU_CHECK(
        type.layout == Layout::panels_of_weight(type.shape),
        "no kernel reads weights in " +
            to_string(
                type));  // panels run along the first dimension of a weight: the matrix is its transpose
    const int64_t columns = type.shape[0];
    spec.shape = {columns == 0 ? 0 : type.elements() / columns, columns};
    spec.strides = contiguous_strides(spec.shape);
    spec.layout = Layout::panels_of_matrix(columns);
  }
  return spec;
}

std::optional<KernelChoice> choose_kernel(const ir::Op& op, std::span<const TensorSpec> operands,
                                          std::span<const TensorSpec> results) {
  const OpDef* def = definition(op);
  if (def == nullptr || !def->kernels) return std::nullopt;
  uint64_t absent = 0;
  for (int i = 0; i < std::min(64, op.operand_count()); ++i)
    if (op.operand(i) == nullptr) absent |= uint64_t{1} << i;
  for (KernelChoice& choice : def->kernels(op)) {
    // A packed weight has lost its shape; the convolution kernel reads it from an attribute.
    if (def->has(kConvolution) && operands.size() > 1 && operands[1].layout.is_blocked())
      choice.attributes.set("kernel_shape", op.operand(1)->type().shape);
    const kernels::KernelDef* kernel = kernels::find_kernel(choice.id);
    if (kernel != nullptr && kernel->prepare({operands, results, choice.attributes, absent}) != nullptr)
      return std::move(choice);
  }
  return std::nullopt;
}

std::optional<KernelChoice> choose_kernel(const ir::Op& op) {
  const auto spec = [](const ir::Value* value) {
    return value == nullptr ? TensorSpec() : spec_of(value->type());
  };
  std::vector<TensorSpec> operands, results;
  for (int i = 0; i < op.operand_count(); ++i) operands.push_back(spec(op.operand(i)));
  for (int i = 0; i < op.result_count(); ++i) results.push_back(spec(op.result(i)));
  return choose_kernel(op, operands, results);
}

}  // namespace ipu::ops
