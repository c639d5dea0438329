#include "bindings/core/replica_groups_binding.h"

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "support/error.h"
#include "support/replica_grouping.h"

namespace ipu::bindings {
namespace {

constexpr int kMost = 1 << 20;  // replicas

ReplicaGrouping grouping(int stride, int size) {
  if (stride < 1 || size < 0)
    throw Error(ErrorCode::kOption, fmt::format("number out of range: groups of {}, {} apart", size, stride));
  return {stride, size};
}

const std::vector<int64_t>& checked(const std::vector<int64_t>& assignment) {
  const auto replicas = static_cast<int64_t>(assignment.size());
  if (std::any_of(assignment.begin(), assignment.end(), [&](int64_t g) { return g < 0 || g >= replicas; }))
    throw Error(ErrorCode::kOption, fmt::format("number out of range: the groups of {} replicas are 0 to {}",
                                                replicas, replicas - 1));
  return assignment;
}

std::vector<std::vector<int64_t>> members(const std::vector<int64_t>& assignment) {
  std::vector<std::vector<int64_t>> found(first_replicas(checked(assignment)).size());
  for (size_t r = 0; r < assignment.size(); ++r)
    found[static_cast<size_t>(assignment[r])].push_back(static_cast<int64_t>(r));
  return found;
}

}  // namespace

void bind_replica_groups(pybind11::module_& m) {
  namespace py = pybind11;
  py::module_ groups = m.def_submodule(
      "replica_groups",
      "Which replicas share a value: `size` replicas, `stride` apart, form a group; size 0: all. Groups are numbered in "
      "the order of their first replica. Whether they divide the replicas must be known before.");
  const auto stride = py::arg("stride"), size = py::arg("size");
  groups.def(
      "assignment",
      [](int replicas, int stride, int size) {
        if (replicas < 0 || replicas > kMost)
          throw Error(ErrorCode::kOption, fmt::format("number out of range: {} replicas", replicas));
        return grouping(stride, size).groups(replicas);
      },
      py::arg("replicas"), stride, size, "The group of each replica.");
  groups.def(
      "group_at", [](int replica, int stride, int size) { return grouping(stride, size).group_of(replica); },
      py::arg("replica"), stride, size, "The group of a replica.");
  groups.def(
      "member_at",
      [](int replica, int stride, int size) { return grouping(stride, size).member_of(replica); },
      py::arg("replica"), stride, size, "The number of a replica in its group.");
  groups.def(
      "replica_at",
      [](int group, int member, int stride, int size) {
        return grouping(stride, size).replica_at(group, member);
      },
      py::arg("group"), py::arg("member"), stride, size, "A member of a group.");
  groups.def("members", &members, py::arg("assignment"), "The replicas of each group, rising.");
  groups.def(
      "firsts", [](const std::vector<int64_t>& assignment) { return first_replicas(checked(assignment)); },
      py::arg("assignment"),
      "The first replica of each group, which speaks for it where the host reads one value of each.");
}

}  // namespace ipu::bindings
