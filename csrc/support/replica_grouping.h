// Which replicas share something: a value of a variable, the elements of an input, a collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ipu {

// `size` replicas, `stride` apart, form a group; size 0: all form one. Groups are numbered in the order of their
// first replica.
struct ReplicaGrouping {
  int64_t stride = 1;
  int64_t size = 0;
  std::vector<int64_t> assignment = {};  // explicit group of each replica; empty: by stride and size

  bool is_one_group() const { return size == 0 && assignment.empty(); }
  // All but the last expect a grouping without a problem.
  int64_t count(int64_t replicas) const;  // of groups
  int64_t group_of(int64_t replica) const {
    if (!assignment.empty()) return assignment[static_cast<size_t>(replica)];
    return size == 0 ? 0 : replica / (size * stride) * stride + replica % stride;
  }
  int64_t member_of(int64_t replica) const;  // its number in its group
  int64_t replica_at(int64_t group, int64_t member) const;
  std::vector<int64_t> groups(int64_t replicas) const;                // of each replica
  std::vector<std::vector<int64_t>> members(int64_t replicas) const;  // replicas of each group
  // Why it does not divide the replicas into equal groups; empty when it does.
  std::string problem(int64_t replicas) const;

  bool operator==(const ReplicaGrouping&) const = default;
};

// Of each group its first replica, which speaks for it where the host reads one value of each. `groups`: of each replica.
std::vector<int64_t> first_replicas(std::span<const int64_t> groups);

}  // namespace ipu
