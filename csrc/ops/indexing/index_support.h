// What ops that read an index operand share.
#pragma once

#include <optional>
#include <string_view>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {

// Element i of an index operand. Throws Error(kExecution) unless it is in [0, extent).
int64_t checked_index(const ReferenceTensor& index, int64_t i, int64_t extent, std::string_view kind);

// `index` must have the rank of x and may not be larger outside dimension `dim`.
void require_gatherable(const InferContext& context, const Shape& x, const Shape& index, int64_t dim);

// Of ops that put src (operand 2) into x at the numbers of index (operand 1): elements, or slices along a dimension.
std::vector<target::Work> scattered_elements(const ir::Op& op);
std::vector<target::Work> updated_slices(const ir::Op& op);
// Of gather and scatter: lines of x along `dim` that elements are taken from, each by numbers of its own.
int64_t apart_of(const ir::Op& op);

// An i32 index whose negative values count from the end, checked on the device (op flat_index).
ir::Value* index_from_front(ImportCall& call, ir::Value* index, int64_t extent);

// In `settings.outline` of the scatter that clears what a mean will write: the counts of the mean start at 0 there, too.
inline constexpr char kClearsCounts[] = "clears_counts";

// x[..., i, j, ...] with integer tensors: the indexed dimensions are brought together, merged into one and
// named by one merged index; each index is checked against its own dimension. The index dimensions stand
// where the indexed ones stood if these are neighbours, else in front, as in torch.
struct MergedIndex {
  ir::Value* flat;  // x, transposed by `perm` to `moved_shape`, with dimensions [place, place + count) merged
  ir::Value* index;  // flat
  std::vector<int64_t> perm;
  Shape moved_shape, index_shape;
  int64_t place, count;
};
// nullopt when no dimension is indexed. Boolean masks are the caller's business.
std::optional<MergedIndex> merge_indices(ImportCall& call, ir::Value* x,
                                         const std::vector<ir::Value*>& indices);

}  // namespace ipu::ops
