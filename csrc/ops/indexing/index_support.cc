// See index_support.h.
#include "ops/indexing/index_support.h"

#include <fmt/core.h>

namespace ipu::ops {

int64_t checked_index(const ReferenceTensor& index, int64_t i, int64_t extent, std::string_view kind) {
  const auto value = static_cast<int64_t>(index.values[i]);
  if (value < 0 || value >= extent) {
    throw Error(ErrorCode::kExecution,
                fmt::format("index out of range: {} reads index {} at position {}, there are {} elements",
                            kind, value, i, extent));
  }
  return value;
}

void require_gatherable(const InferContext& context, const Shape& x, const Shape& index, int64_t dim) {
  bool fits = index.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = static_cast<int64_t>(d) == dim || index[d] <= x[d];
  if (!fits) {
    shape_error(
        fmt::format("the index {} must have as many dimensions as x {} "
                    "and may not be larger outside dimension {}",
                    to_string(index), to_string(x), dim));
  }
}

std::vector<target::Work> scattered_elements(const ir::Op& op) {
  return {gather_from(op.operand(0)->type(), op.operand(2)->type().elements(), 1, true, apart_of(op))};
}

std::vector<target::Work> updated_slices(const ir::Op& op) {
  const int64_t rows = op.operand(1)->type().elements();
  const int64_t row = op.operand(2)->type().elements() / std::max<int64_t>(rows, 1);
  target::Work work = gather_from(op.operand(0)->type(), rows, row, true);
  if (op.attributes.integer("dim") > 0)
    std::get<target::GatherWork>(work.form).blocks = op.operand(0)->type().shape[0];
  return {work};
}

int64_t apart_of(const ir::Op& op) {
  const Shape& index = op.operand(1)->type().shape;
  const int64_t along = index.empty() ? 1 : index[static_cast<size_t>(op.attributes.integer("dim"))];
  return op.operand(1)->type().elements() / std::max<int64_t>(along, 1);
}

std::optional<MergedIndex> merge_indices(ImportCall& call, ir::Value* x,
                                         const std::vector<ir::Value*>& indices) {
  MergedIndex m{};
  std::vector<int64_t> indexed;
  for (int64_t d = 0; d < std::ssize(x->type().shape); ++d) {
    ir::Value* index = d < std::ssize(indices) ? indices[d] : nullptr;
    (index == nullptr ? m.perm : indexed).push_back(d);
    if (index != nullptr) m.index_shape = broadcast_shapes(m.index_shape, index->type().shape);
  }
  if (indexed.empty()) return std::nullopt;
  m.count = std::ssize(indexed);
  m.place = indexed.back() - indexed.front() + 1 == m.count ? indexed.front() : 0;
  m.perm.insert(m.perm.begin() + m.place, indexed.begin(), indexed.end());
  Shape sizes;
  std::vector<ir::Value*> each;
  for (const int64_t d : indexed) {
    sizes.push_back(x->type().shape[d]);
    each.push_back(expanded(call, call.cast(indices[d], DType::kI32), m.index_shape));
  }
  m.index = build_op(call.builder(), "flat_index", each, {{"sizes", sizes}})->result();
  m.index = reshaped(call, m.index, {element_count(m.index_shape)});
  ir::Value* moved = transposed(call, x, m.perm);
  Shape flat = m.moved_shape = moved->type().shape;
  flat.erase(flat.begin() + m.place, flat.begin() + m.place + m.count);
  flat.insert(flat.begin() + m.place, element_count(sizes));
  m.flat = reshaped(call, moved, flat);
  return m;
}

}  // namespace ipu::ops
