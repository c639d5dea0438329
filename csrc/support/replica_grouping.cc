#include "support/replica_grouping.h"

#include <fmt/core.h>

#include <algorithm>

#include "support/error.h"

namespace ipu {
namespace {

std::string problem_of_assignment(const std::vector<int64_t>& assignment, int64_t replicas) {
  if (static_cast<int64_t>(assignment.size()) != replicas)
    return fmt::format("assigns {} replicas to groups and there are {}", assignment.size(), replicas);
  std::vector<int64_t> sizes;
  for (int64_t group : assignment) {
    if (group < 0 || group > static_cast<int64_t>(sizes.size()))
      return "numbers its groups in another order than that of their first replicas";
    if (group == static_cast<int64_t>(sizes.size())) sizes.push_back(0);
    ++sizes[static_cast<size_t>(group)];
  }
  for (int64_t size : sizes)
    if (size != sizes[0]) return "has groups of unequal size";
  return {};
}

}  // namespace

std::string ReplicaGrouping::problem(int64_t replicas) const {
  if (!assignment.empty()) return problem_of_assignment(assignment, replicas);
  if (stride < 1 || size < 0) return fmt::format("has stride {} and size {}", stride, size);
  if (size == 0) return {};
  if (replicas % stride != 0 || replicas / stride % size != 0)
    return fmt::format("of size {} and stride {} does not divide {} replicas", size, stride, replicas);
  return {};
}

int64_t ReplicaGrouping::count(int64_t replicas) const {
  if (!assignment.empty()) return *std::max_element(assignment.begin(), assignment.end()) + 1;
  return size == 0 ? 1 : replicas / size;
}

int64_t ReplicaGrouping::member_of(int64_t replica) const {
  if (!assignment.empty())
    return std::count(assignment.begin(), assignment.begin() + replica,
                      assignment[static_cast<size_t>(replica)]);
  return size == 0 ? replica : replica % (size * stride) / stride;
}

int64_t ReplicaGrouping::replica_at(int64_t group, int64_t member) const {
  if (assignment.empty())
    return size == 0 ? member : group / stride * (size * stride) + group % stride + member * stride;
  int64_t replica = 0;
  while (assignment[static_cast<size_t>(replica)] != group || member-- > 0) ++replica;
  return replica;
}

std::vector<int64_t> ReplicaGrouping::groups(int64_t replicas) const {
  std::vector<int64_t> groups(static_cast<size_t>(replicas));
  for (int64_t replica = 0; replica < replicas; ++replica)
    groups[static_cast<size_t>(replica)] = group_of(replica);
  return groups;
}

std::vector<std::vector<int64_t>> ReplicaGrouping::members(int64_t replicas) const {
  IPU_CHECK(problem(replicas).empty(), "the grouping " + problem(replicas));
  std::vector<std::vector<int64_t>> groups(static_cast<size_t>(count(replicas)));
  for (int64_t replica = 0; replica < replicas; ++replica)
    groups[static_cast<size_t>(group_of(replica))].push_back(replica);
  return groups;
}

std::vector<int64_t> first_replicas(std::span<const int64_t> groups) {
  std::vector<int64_t> firsts;
  for (size_t replica = groups.size(); replica-- > 0;) {
    const auto group = static_cast<size_t>(groups[replica]);
    if (group >= firsts.size()) firsts.resize(group + 1);
    firsts[group] = static_cast<int64_t>(replica);
  }
  return firsts;
}

}  // namespace ipu
