// See index_support.h.
#include "ops/indexing/index_support.h"

namespace ipu::ops {

int64_t checked_index(const ReferenceTensor& index, int64_t i, int64_t extent, std::string_view kind) {
  const auto value = static_cast<int64_t>(index.values[i]);
  if (value < 0 || value >= extent) {
    throw Error(ErrorCode::kExecution, "index out of range: " + std::string(kind) + " reads index " +
                                           std::to_string(value) + " at position " + std::to_string(i) +
                                           ", there are " + std::to_string(extent) + " elements");
  }
  return value;
}

void require_gatherable(const InferContext& context, const Shape& x, const Shape& index, int64_t dim) {
  bool fits = index.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<int64_t>(d) == dim || index[d] <= x[d];
  if (!fits) {
    shape_error("the index " + to_string(index) + " must have as many dimensions as x " + to_string(x) +
                " and may not be larger outside dimension " + std::to_string(dim));
  }
}

}  // namespace ipu::ops
