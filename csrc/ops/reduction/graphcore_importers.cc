// Importer of ai.graphcore's median.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// The reduced dimensions brought to the end and merged: [others, reduced].
struct Rows {
  std::vector<int64_t> permutation;
  Shape result;
  int64_t rows = 1, size = 1;
};

// Without axes all dimensions; with an empty list none. An axis may be named twice.
Rows read_rows(NodeImportCall& call) {
  const Shape& shape = call.operand(0)->type().shape;
  std::set<int64_t> axes;
  if (call.has("axes")) {
    for (const int64_t axis : call.integers("axes")) axes.insert(node_dim(call, axis, shape.size()));
  } else {
    for (size_t d = 0; d < shape.size(); ++d) axes.insert(static_cast<int64_t>(d));
  }
  const bool keeps = flag_of(call, "keepdims", true);
  Rows r;
  for (int64_t d = 0; d < std::ssize(shape); ++d) {
    const bool is_reduced = axes.contains(d);
    (is_reduced ? r.size : r.rows) *= shape[d];
    if (!is_reduced) r.permutation.push_back(d);
    if (keeps || !is_reduced) r.result.push_back(is_reduced ? 1 : shape[d]);
  }
  r.permutation.insert(r.permutation.end(), axes.begin(), axes.end());
  return r;
}

// The lower of two middle elements, NaN if there is one; its index counts along the merged dimensions. The gradient
// goes to the element that was taken.
void import_median(NodeImportCall& call) {
  const Rows r = read_rows(call);
  if (r.size == 0)
    node_shape_error(
        call, fmt::format("of {}: there is no element to take", to_string(call.operand(0)->type().shape)));
  ir::Value* x = reshaped(call, transposed(call, call.operand(0), r.permutation), {r.rows, r.size});
  ir::Op* sorted = build_op(call.builder(), "sort", std::vector<ir::Value*>{call.op("detach", {x})},
                            {{"dim", int64_t{1}}});
  const auto column = [&](int result, int64_t at) { return sliced(call, sorted->result(result), 1, at, 1); };
  ir::Value* index = column(1, (r.size - 1) / 2);
  if (is_floating_point(x->type().dtype))
    index = call.op("where", {call.op("is_nan", {column(0, r.size - 1)}), column(1, r.size - 1), index});
  ir::Value* value = call.op("gather", {x, index}, {{"dim", int64_t{1}}});
  call.set_result(0, reshaped(call, value, r.result));
  call.set_result(1, reshaped(call, index, r.result));
}

struct ReductionGraphcoreImporters {
  ReductionGraphcoreImporters() {
    register_graphcore_importer({"ReduceMedian", "reducemedian", "x:A", "values:A indices:INT32", "yes",
                                 "axes:ints=None, keepdims:flag=1", "Medians and where they were."},
                                import_median);
  }
};
const ReductionGraphcoreImporters reduction_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
