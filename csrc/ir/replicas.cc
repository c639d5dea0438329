#include "ir/replicas.h"

namespace ipu::ir {

int64_t replica_count(const Module& module) {
  const Attribute* value = module.attributes.find("replicas");
  const auto* count = value != nullptr ? std::get_if<int64_t>(value) : nullptr;
  return count != nullptr ? *count : 1;
}

int64_t shard_elements(const Shape& shape, int64_t shards) {
  return (element_count(shape) + shards - 1) / shards;
}

Shape host_shape(const Variable& variable, int64_t replicas) {
  Shape shape = variable.shard_over > 1 ? variable.meta_shape : variable.type.shape;
  const int64_t groups = variable.grouping.count(replicas);
  if (groups > 1) shape.insert(shape.begin(), groups);
  return shape;
}

}  // namespace ipu::ir
