#include "support/replica_grouping.h"

#include <gtest/gtest.h>

namespace ipu {
namespace {

TEST(ReplicaGrouping, forms_groups_as_the_assignment_says) {
  using Groups = std::vector<std::vector<int64_t>>;
  EXPECT_EQ((ReplicaGrouping{1, 0, {}}.members(3)), (Groups{{0, 1, 2}}));
  EXPECT_EQ((ReplicaGrouping{2, 2, {}}.members(8)), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ((ReplicaGrouping{4, 2, {}}.members(8)), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ((ReplicaGrouping{1, 2, {0, 0, 1, 1, 0, 0, 1, 1}}.members(8)),
            (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ((ReplicaGrouping{1, 0, {0, 1, 1}}.problem(3)), "has groups of unequal size");
  EXPECT_EQ((ReplicaGrouping{1, 0, {1, 0}}.problem(2)),
            "numbers its groups in another order than that of their first replicas");
  EXPECT_EQ((ReplicaGrouping{1, 0, {0, 0}}.problem(3)), "assigns 2 replicas to groups and there are 3");
  EXPECT_EQ((ReplicaGrouping{3, 2, {}}.problem(8)), "of size 2 and stride 3 does not divide 8 replicas");
}

TEST(ReplicaGrouping, numbers_and_counts_its_groups_like_its_members) {
  for (const ReplicaGrouping& grouping :
       {ReplicaGrouping{1, 0, {}}, ReplicaGrouping{2, 2, {}}, ReplicaGrouping{4, 2, {}},
        ReplicaGrouping{1, 4, {}}, ReplicaGrouping{1, 0, {0, 1, 1, 0, 2, 3, 3, 2}}}) {
    const auto members = grouping.members(8);
    EXPECT_EQ(grouping.count(8), static_cast<int64_t>(members.size()));
    for (size_t group = 0; group < members.size(); ++group) {
      EXPECT_EQ(first_replicas(grouping.groups(8))[group], members[group][0]);
      for (size_t member = 0; member < members[group].size(); ++member) {
        const auto g = static_cast<int64_t>(group), m = static_cast<int64_t>(member);
        const int64_t replica = members[group][member];
        EXPECT_EQ(grouping.group_of(replica), g);
        EXPECT_EQ(grouping.groups(8)[static_cast<size_t>(replica)], g);
        EXPECT_EQ(grouping.member_of(replica), m);
        EXPECT_EQ(grouping.replica_at(g, m), replica);
      }
    }
  }
}

}  // namespace
}  // namespace ipu
