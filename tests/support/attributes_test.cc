#include "support/attributes.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ipu {
namespace {

std::string names(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) text += name;
  return text;
}

TEST(Attributes, are_sorted_by_name_whatever_the_order_they_came_in) {
  Attributes some{{"m", true}, {"z", int64_t{1}}, {"a", 2.0}};
  some.set("k", std::string("text"));
  some.set("zz", false);
  some.set("m", false);
  EXPECT_EQ(names(some), "akmzzz");
  EXPECT_EQ(some.size(), 5u);
  EXPECT_FALSE(some.boolean("m"));
  EXPECT_TRUE(some.erase("k"));
  EXPECT_FALSE(some.erase("k"));
  EXPECT_EQ(names(some), "amzzz");
  EXPECT_EQ(some.find("k"), nullptr);
  EXPECT_EQ(some.text("gone", "not there"), "not there");
}

TEST(Attributes, a_change_of_a_copy_is_not_seen_by_the_others) {
  const Attributes first{{"a", int64_t{1}}, {"b", std::string(100, 'b')}};
  Attributes second = first, third = second;
  EXPECT_EQ(second.begin(), first.begin());  // shared
  second.set("a", int64_t{2});
  third.erase("b");
  EXPECT_EQ(first.integer("a"), 1);
  EXPECT_EQ(second.integer("a"), 2);
  EXPECT_EQ(second.text("b"), first.text("b"));
  EXPECT_EQ(names(third), "a");
  EXPECT_NE(first, second);
  second.set("a", int64_t{1});
  EXPECT_EQ(first, second);
  third = std::move(second);
  EXPECT_TRUE(second.empty());  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(third, first);
  third = {};
  EXPECT_EQ(third, Attributes());
}

TEST(Attributes, all_may_be_changed_while_one_walks_over_them) {
  Attributes some;
  for (int i = 0; i < 20; ++i) some.set("name " + std::to_string(i), int64_t{i});
  const Attributes before = some;
  for (const auto& [name, value] : before) some.set(name, std::get<int64_t>(value) + 100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(before.integer("name " + std::to_string(i)), i);
    EXPECT_EQ(some.integer("name " + std::to_string(i)), i + 100);
  }
}

TEST(Attributes, copies_belong_to_their_threads) {
  const Attributes common{{"a", std::string(50, 'a')}, {"b", std::vector<int64_t>{1, 2, 3}}};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&common, t] {
      for (int i = 0; i < 2000; ++i) {
        Attributes own = common;
        own.set("a", int64_t{t});
        const Attributes again = own;
        own.set("c", int64_t{i});
        EXPECT_EQ(again.integer("a"), t);
        EXPECT_EQ(again.size(), 2u);
        EXPECT_EQ(own.integers("b"), common.integers("b"));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(common.text("a"), std::string(50, 'a'));
}

}  // namespace
}  // namespace ipu
