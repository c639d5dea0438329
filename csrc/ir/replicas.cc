#include "ir/replicas.h"

#include <algorithm>
#include <map>

#include "support/error.h"

namespace ipu::ir {

int64_t replica_count(const Module& module) {
  const Attribute* value = module.attributes.find("replicas");
  const auto* count = value != nullptr ? std::get_if<int64_t>(value) : nullptr;
  return count != nullptr ? *count : 1;
}

std::string grouping_problem(const ReplicaGrouping& grouping, int64_t replicas) {
  if (!grouping.assignment.empty()) {
    if (static_cast<int64_t>(grouping.assignment.size()) != replicas)
      return "assigns " + std::to_string(grouping.assignment.size()) + " replicas to groups and there are " +
             std::to_string(replicas);
    std::map<int64_t, int64_t> sizes;
    for (int64_t group : grouping.assignment) {
      if (group < 0 || group > static_cast<int64_t>(sizes.size()) ||
          (group == static_cast<int64_t>(sizes.size()) && sizes.contains(group)))
        return "numbers its groups in another order than that of their first replicas";
      ++sizes[group];
    }
    for (const auto& [group, size] : sizes)
      if (size != sizes[0]) return "has groups of unequal size";
    return {};
  }
  if (grouping.stride < 1 || grouping.size < 0)
    return "has stride " + std::to_string(grouping.stride) + " and size " + std::to_string(grouping.size);
  if (grouping.size == 0) return {};
  if (replicas % grouping.stride != 0 || replicas / grouping.stride % grouping.size != 0)
    return "of size " + std::to_string(grouping.size) + " and stride " + std::to_string(grouping.stride) +
           " does not divide " + std::to_string(replicas) + " replicas";
  return {};
}

std::vector<std::vector<int64_t>> groups_of(const ReplicaGrouping& grouping, int64_t replicas) {
  IPU_CHECK(grouping_problem(grouping, replicas).empty(),
            "the grouping " + grouping_problem(grouping, replicas));
  const int64_t stride = grouping.size == 0 ? 1 : grouping.stride;
  const int64_t span = grouping.size == 0 ? replicas : grouping.size * stride;
  std::vector<std::vector<int64_t>> groups;
  for (int64_t replica = 0; replica < replicas; ++replica) {
    const auto group = static_cast<size_t>(
        grouping.assignment.empty() ? (grouping.size == 0 ? 0 : replica % stride + stride * (replica / span))
                                    : grouping.assignment[static_cast<size_t>(replica)]);
    if (group >= groups.size()) groups.resize(group + 1);
    groups[group].push_back(replica);
  }
  return groups;
}

int64_t shard_elements(const Shape& shape, int64_t shards) {
  return (element_count(shape) + shards - 1) / shards;
}

Shape host_shape(const Variable& variable, int64_t replicas) {
  Shape shape = variable.shard_over > 1 ? variable.meta_shape : variable.type.shape;
  const auto groups = static_cast<int64_t>(groups_of(variable.grouping, replicas).size());
  if (groups > 1) shape.insert(shape.begin(), groups);
  return shape;
}

}  // namespace ipu::ir
