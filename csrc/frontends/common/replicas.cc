#include "frontends/common/replicas.h"

#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends {

int64_t replicas_in_group(const ir::Variable& variable, int replicas) {
  return replicas / variable.grouping.count(replicas);
}

ir::Value* sum_over_group(ir::Builder& builder, ir::Value* value, const ir::Variable& variable,
                          int replicas) {
  if (replicas_in_group(variable, replicas) == 1) return value;
  IPU_CHECK(variable.grouping.assignment.empty(), "all_reduce takes groups by stride and size");
  if (value->type().dtype == DType::kF16)
    value = ops::build(builder, "cast", {value}, {{"dtype", DType::kF32}});
  return ops::build(builder, "all_reduce", {value},
                    {{"group_size", variable.grouping.size}, {"group_stride", variable.grouping.stride}});
}

ir::Value* share_in_group(ir::Builder& builder, ir::Value* value, const ir::Variable& variable,
                          int replicas) {
  const int64_t count = replicas_in_group(variable, replicas);
  if (count == 1) return value;
  return ops::build(builder, "mul",
                    {value, builder.scalar(value->type().dtype, 1.0 / static_cast<double>(count))});
}

}  // namespace ipu::frontends
