#include "lowering/views.h"

#include <cstring>
#include <memory>

#include "ir/transposed_layout.h"
#include "ops/definition/effects.h"
#include "support/error.h"

namespace ipu::lowering {
TensorSpec flat(const TensorSpec& spec) {
  return TensorSpec::plain(spec.dtype, {spec.stored_bytes() / size_in_bytes(spec.dtype)});
}

ConstantPtr splat_of(const ConstantData& data) {
  const size_t size = static_cast<size_t>(size_in_bytes(data.dtype));
  if (data.bytes.size() <= size ||
      std::memcmp(data.bytes.data(), data.bytes.data() + size, data.bytes.size() - size) != 0)
    return nullptr;
  auto one = std::make_shared<ConstantData>();
  one->dtype = data.dtype;
  one->bytes.assign(data.bytes.begin(), data.bytes.begin() + static_cast<ptrdiff_t>(size));
  return one;
}

bool changes_layout_alone(const ir::Op& op) {
  if (!op.is("transpose")) return false;
  const Layout &from = op.operand(0)->type().layout, &to = op.result()->type().layout;
  if (from.is_plain() && to.is_plain()) return false;
  const std::vector<int64_t>& perm = op.attributes.integers("perm");
  return perm.size() <= Layout::kMaxRank && to == ir::transposed_layout(from, perm);
}

std::optional<View> view_of(const ir::Op& op, const View& operand) {
  const ir::ViewRule* rule = ops::view_rule(op);
  if (rule == nullptr || op.result_count() != 1) return std::nullopt;
  const ir::Type& type = op.result()->type();
  if (type.dtype != operand.spec.dtype) return std::nullopt;
  View place = operand;
  if (rule->is_same) return place;
  if (changes_layout_alone(op)) {
    if (operand.spec.layout.is_plain() && !operand.spec.is_contiguous()) return std::nullopt;
    place.spec = spec_of(type);
    return place;
  }
  if (type.layout.is_blocked() && op.is("expand")) {  // zeros, see pack-weights: any order, padding included
    IPU_CHECK(operand.spec.layout.is_plain() && element_count(operand.spec.shape) == 1,
              "only zeros expand into panels");
    place.spec = flat(spec_of(type));
    place.spec.strides = {0};
    return place;
  }
  if (!operand.spec.layout.is_plain() || !type.layout.is_plain() || !rule->strides) return std::nullopt;
  std::optional<ir::StridedView> view = rule->strides(op, {0, operand.spec.shape, operand.spec.strides});
  if (!view) return std::nullopt;
  place.spec.shape = std::move(view->shape);
  place.spec.strides = std::move(view->strides);
  place.byte_offset += view->offset * size_in_bytes(type.dtype);
  return place;
}

}  // namespace ipu::lowering
