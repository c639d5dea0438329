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
    // Panels run along the dimension that is cut, which is the outermost: the columns of the matrix.
    const int64_t columns = type.shape[static_cast<size_t>(type.layout.cut())];
    IPU_CHECK(
        type.layout.dimension(0) == type.layout.cut() && type.layout.block() == Layout::panel_width(columns),
        "no kernel reads weights in " + to_string(type));
    spec.shape = {columns == 0 ? 0 : type.elements() / columns, columns};
    spec.strides = contiguous_strides(spec.shape);
    spec.layout = Layout::panels_of_matrix(columns);
  }
  return spec;
}

namespace {

// Kernels that read panels of a weight know no others.
bool has_other_panels(const ir::Value* value, LayoutWish wish) {
  return wish == LayoutWish::kPanels && value != nullptr && value->type().layout.is_blocked() &&
         value->type().layout != Layout::panels_of_weight(value->type().shape);
}

bool has_other_panels(const ir::Op& op) {
  const LayoutWishes wishes = layout_wishes(op);
  for (size_t i = 0; i < wishes.operands.size() && i < static_cast<size_t>(op.operand_count()); ++i)
    if (has_other_panels(op.operand(static_cast<int>(i)), wishes.operands[i])) return true;
  for (size_t i = 0; i < wishes.results.size() && i < static_cast<size_t>(op.result_count()); ++i)
    if (has_other_panels(op.result(static_cast<int>(i)), wishes.results[i])) return true;
  return false;
}

}  // namespace

std::optional<KernelChoice> choose_kernel(const ir::Op& op, std::span<const TensorSpec> operands,
                                          std::span<const TensorSpec> results) {
  const OpDef* def = definition(op);
  if (def == nullptr || !def->kernels || has_other_panels(op)) return std::nullopt;
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
