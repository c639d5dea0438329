#include "ops/definition/batch_rules.h"

#include <string>

namespace ipu::ops {

bool BatchPart::is_only_cut(int operand) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if ((axes[i] >= 0) != (static_cast<int>(i) == operand)) return false;
  return true;
}

std::optional<int64_t> elementwise_batch(BatchPart& part) {
  // Dimensions are aligned at the end.
  int64_t from_end = -1;
  for (int i = 0; i < part.op.operand_count(); ++i) {
    if (!part.is_cut(i)) continue;
    const int64_t here = part.rank(i) - part.axis(i);
    if (from_end >= 0 && here != from_end) return std::nullopt;
    from_end = here;
  }
  const Shape& result = part.op.result()->type().shape;
  const auto axis = static_cast<int64_t>(result.size()) - from_end;
  for (int i = 0; i < part.op.operand_count(); ++i) {
    if (part.op.operand(i) == nullptr || part.rank(i) < from_end) continue;
    const int64_t size = part.shape(i)[static_cast<size_t>(part.rank(i) - from_end)];
    if (part.is_cut(i) ? size != result[static_cast<size_t>(axis)] : size != 1) return std::nullopt;
  }
  return axis;
}

std::optional<int64_t> sample_batch(BatchPart& part) {
  if (!part.is_only_cut(0) || part.axis(0) != 0) return std::nullopt;
  return 0;
}

BatchRule batch_before(std::string_view attribute) {
  return [name = std::string(attribute)](BatchPart& part) -> std::optional<int64_t> {
    if (!part.is_only_cut(0) || part.axis(0) >= part.attributes.integer(name)) return std::nullopt;
    return part.axis(0);
  };
}

BatchRule batch_beside(std::string_view attribute) {
  return [name = std::string(attribute)](BatchPart& part) -> std::optional<int64_t> {
    if (!part.is_only_cut(0) || part.axis(0) == part.attributes.integer(name)) return std::nullopt;
    return part.axis(0);
  };
}

}  // namespace ipu::ops
