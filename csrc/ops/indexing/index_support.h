// What ops that read an index operand share.
#pragma once

#include <string_view>

#include "ops/rule_support.h"

namespace ipu::ops {

// Element i of an index operand. Throws Error(kExecution) unless it is in [0, extent).
int64_t checked_index(const ReferenceTensor& index, int64_t i, int64_t extent, std::string_view kind);

// `index` must have the rank of x and may not be larger outside dimension `dim`.
void require_gatherable(const InferContext& context, const Shape& x, const Shape& index, int64_t dim);

}  // namespace ipu::ops
