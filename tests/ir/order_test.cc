// Order edges when ops are erased: the order of the rest stays, nothing dangles, the cost is linear.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "tests/hang_limit.h"
#include "tests/thrown.h"

namespace ipu::ir {
namespace {

Graph* ops_of(Module& module, int count) {
  Graph* graph = module.add_graph("f");
  for (int i = 0; i < count; ++i) graph->create("op", {}, {{"number", int64_t{i}}}, {});
  return graph;
}
std::vector<Op*> list(const Graph& graph) {
  std::vector<Op*> ops;
  for (const auto& op : graph.ops()) ops.push_back(op.get());
  return ops;
}
std::string numbers(const Op& op) {
  std::vector<int64_t> earlier;
  for (const Op* other : op.after) earlier.push_back(other->attributes.integer("number"));
  std::sort(earlier.begin(), earlier.end());
  std::string text;
  for (int64_t number : earlier) text += std::to_string(number) + " ";
  return text;
}

TEST(OrderEdges, lead_around_an_erased_op) {
  Module module;
  Graph* graph = ops_of(module, 5);
  std::vector<Op*> ops = list(*graph);
  ops[2]->after.push_back(ops[0]);
  ops[2]->after.push_back(ops[1]);
  ops[3]->after.push_back(ops[2]);
  ops[4]->after.push_back(ops[2]);
  ops[4]->after.push_back(ops[0]);
  graph->erase(ops[2]);
  EXPECT_EQ(numbers(*ops[3]), "0 1 ");
  EXPECT_EQ(numbers(*ops[4]), "0 1 ");  // the edge that was there is not made twice
  graph->erase(ops[0]);
  EXPECT_EQ(numbers(*ops[3]), "1 ");
  graph->erase(ops[1]);
  EXPECT_TRUE(ops[3]->after.empty());
  EXPECT_TRUE(ops[4]->after.empty());
}

TEST(OrderEdges, an_op_with_no_edges_behind_it_just_goes) {
  Module module;
  Graph* graph = ops_of(module, 2);
  std::vector<Op*> ops = list(*graph);
  ops[1]->after.push_back(ops[0]);
  EXPECT_TRUE(ops[0]->after.has_later());
  graph->erase(ops[1]);
  EXPECT_FALSE(ops[0]->after.has_later());
}

TEST(OrderEdges, stay_in_one_graph) {
  Module module;
  Graph *first = ops_of(module, 1), *second = ops_of(module, 1);
  EXPECT_NE(message_of([&] { list(*first)[0]->after.push_back(list(*second)[0]); }).find("another graph"),
            std::string::npos);
  EXPECT_NE(message_of([&] { list(*first)[0]->after.push_back(list(*first)[0]); }).find("after itself"),
            std::string::npos);
}

// What must come before each op, directly or not.
std::vector<std::set<int64_t>> before(const Graph& graph) {
  std::vector<std::set<int64_t>> sets;
  std::unordered_map<const Op*, std::set<int64_t>> of;
  for (const auto& op : graph.ops()) {
    std::set<int64_t>& own = of[op.get()];
    for (const Op* earlier : op->after) {
      own.insert(earlier->attributes.integer("number"));
      own.insert(of.at(earlier).begin(), of.at(earlier).end());
    }
    sets.push_back(own);
  }
  return sets;
}

TEST(OrderEdges, random_erasures_keep_the_order_of_the_rest) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Module module;
    Graph* graph = ops_of(module, 30);
    std::vector<Op*> ops = list(*graph);
    for (int i = 1; i < 30; ++i)
      for (int k = static_cast<int>(random() % 8); k > 0; --k)
        ops[i]->after.push_back(ops[random() % static_cast<uint64_t>(i)]);
    while (!ops.empty()) {
      const size_t gone = random() % ops.size();
      const int64_t number = ops[gone]->attributes.integer("number");
      std::vector<std::set<int64_t>> expected = before(*graph);
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(gone));
      for (std::set<int64_t>& set : expected) set.erase(number);
      graph->erase(ops[gone]);
      ops.erase(ops.begin() + static_cast<ptrdiff_t>(gone));
      ASSERT_TRUE(find_violations(module, Form::kAuthored).empty());
      ASSERT_EQ(before(*graph), expected) << "seed " << seed;
    }
  }
}

TEST(OrderEdges, where_many_meet_many_the_last_of_the_earlier_ones_is_the_meeting_point) {
  Module module;
  Graph* graph = ops_of(module, 201);
  std::vector<Op*> ops = list(*graph);
  for (int i = 0; i < 100; ++i) {
    ops[100]->after.push_back(ops[(i + 37) % 100]);
    ops[101 + i]->after.push_back(ops[100]);
  }
  graph->move_before(ops[99], ops[0]);  // so the last listed one is 98
  graph->erase(ops[100]);
  size_t edges = 0;
  for (const auto& op : graph->ops()) edges += op->after.size();
  EXPECT_EQ(edges, 199u);
  EXPECT_EQ(ops[98]->after.size(), 99u);
  EXPECT_EQ(numbers(*ops[101]), "98 ");
  EXPECT_TRUE(find_violations(module, Form::kAuthored).empty());
  const std::vector<std::set<int64_t>> sets = before(*graph);
  for (int later = 101; later <= 200; ++later) EXPECT_EQ(sets[later - 1].size(), 100u);
}

// All but the ends of a graph where everything is ordered with everything near it.
TEST(OrderEdges, erasing_many_ops_costs_linear_time) {
  constexpr int kCount = 400'000;
  const HangLimit limit(300);
  Module module;
  Graph* graph = ops_of(module, kCount);
  std::vector<Op*> ops = list(*graph);
  for (int i = 1; i < kCount; ++i)
    for (int k = 1; k <= std::min(i, 6); ++k) ops[i]->after.push_back(ops[i - k]);
  for (int i = 1; i < kCount - 1; ++i) {
    ops[i]->after.push_back(ops[0]);           // a hub in front,
    ops[kCount - 1]->after.push_back(ops[i]);  // and one behind
  }
  for (int i = 1; i < kCount - 1; ++i) graph->erase(ops[i]);
  EXPECT_EQ(before(*graph)[1], std::set<int64_t>{0});
}

}  // namespace
}  // namespace ipu::ir
