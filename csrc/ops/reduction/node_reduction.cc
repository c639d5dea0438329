#include "ops/reduction/node_reduction.h"

#include <numeric>

namespace ipu::ops {

Reduction read_reduction(NodeImportCall& call, size_t rank, int operand_since) {
  Reduction reduction{{}, call.integer("keepdims", 1) == 1};
  const bool none_means_none =
      call.version() >= operand_since && call.integer("noop_with_empty_axes", 0) == 1;
  // In PopART an axis may be named twice.
  const std::optional<std::vector<int64_t>> axes = axes_of(call, 1, operand_since, rank, call.is_popart());
  if (axes) reduction.dims = *axes;
  const bool is_open = !axes || (axes->empty() && call.version() >= operand_since);
  if (is_open && !none_means_none) {
    reduction.dims.resize(rank);
    std::iota(reduction.dims.begin(), reduction.dims.end(), 0);
  }
  return reduction;
}

int axes_operand_since(std::string_view type) { return type == "ReduceSum" ? 13 : 18; }

}  // namespace ipu::ops
