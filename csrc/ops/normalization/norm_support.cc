// See norm_support.h.
#include "ops/normalization/norm_support.h"

#include <fmt/core.h>

#include <numeric>

namespace ipu::ops {

std::vector<int64_t> dims_from(size_t first, size_t rank) {
  std::vector<int64_t> dims(rank - first);
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(first));
  return dims;
}

Shape per_channel(const Shape& x) {
  Shape shape(x.size(), 1);
  shape[1] = x[1];
  return shape;
}

ir::Value* widened(Composer& c, ir::Value* x) { return c.cast(x, normalized_in(x->type().dtype)); }

Statistics statistics(Composer& c, ir::Value* x, const std::vector<int64_t>& dims) {
  ir::Value* mean = c.reduce("reduce_mean", x, dims, true);
  ir::Value* centered = c.sub(x, mean);
  return {mean, c.reduce("reduce_mean", c.mul(centered, centered), dims, true), centered};
}

ir::Value* inverse_deviation(Composer& c, ir::Value* variance, double eps) {
  return c.op("rsqrt", {c.add(variance, c.scalar_like(variance, eps))});
}

ir::Value* weight_of(Composer& c, int i, const Shape& shape) {
  const DType dtype = c.operand(0)->type().dtype;
  return widened(c, c.cast(c.reshape(c.operand(i), shape), dtype));
}

ir::Value* affine(Composer& c, ir::Value* y, int weight, const Shape& shape) {
  if (c.has(weight)) y = c.mul(y, weight_of(c, weight, shape));
  if (c.has(weight + 1)) y = c.add(y, weight_of(c, weight + 1, shape));
  return c.cast(y, c.operand(0)->type().dtype);
}

int64_t channels_of(const InferContext& c) {
  const Shape& x = c.operand(0).shape;
  if (x.size() < 2) shape_error(fmt::format("x {} has no channels", to_string(x)));
  return x[1];
}

void require_per_channel(const InferContext& c, int i, std::string_view name) {
  if (!c.has(i) || c.operand(i).elements() == channels_of(c)) return;
  shape_error(fmt::format("{} {} must have one element for each of the {} channels of x {}", name,
                          to_string(c.operand(i).shape), channels_of(c), to_string(c.operand(0).shape)));
}

ir::Type statistic_type(const ir::Type& x, const std::vector<int64_t>& dims) {
  ir::Type type{normalized_in(x.dtype), x.shape};
  for (const int64_t dim : dims) type.shape[static_cast<size_t>(dim)] = 1;
  return type;
}

}  // namespace ipu::ops
