#include "lowering/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ipu::lowering {
namespace {

void expect_sound(const std::vector<Interval>& intervals, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), intervals.size());
  int64_t sum = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    sum += (intervals[i].bytes + 63) / 64 * 64;
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_LE(plan.offsets[i] + intervals[i].bytes, plan.arena_bytes);
    for (size_t j = 0; j < i; ++j) {
      bool together = intervals[i].first <= intervals[j].last && intervals[j].first <= intervals[i].last;
      bool apart = plan.offsets[i] + intervals[i].bytes <= plan.offsets[j] ||
                   plan.offsets[j] + intervals[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(!together || apart || intervals[i].bytes == 0 || intervals[j].bytes == 0)
          << i << " and " << j;
    }
  }
  EXPECT_LE(plan.arena_bytes, sum);
  EXPECT_GE(plan.arena_bytes, plan.peak_bytes);
}

TEST(ArenaPlan, PlacesTheLargestFirstAndTheOthersInItsGaps) {
  std::vector<Interval> intervals{
      {100, 0, 1},   // 1024: after the three larger ones that live at 1
      {1024, 1, 2},  // 0: the largest, first to be placed
      {512, 3, 4},   // 0: the largest is dead by then
      {128, 2, 3},   // 1024: the largest is alive at 2, and the 512 at 3 ends below
  };
  ArenaPlan plan = plan_arena(intervals);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{1024, 0, 0, 1024}));
  EXPECT_EQ(plan.arena_bytes, 1152);
  EXPECT_EQ(plan.peak_bytes, 1152);  // at 2: 1024 + 128
  EXPECT_EQ(plan.live_at_peak, (std::vector<int>{1, 3}));
  expect_sound(intervals, plan);
}

TEST(ArenaPlan, TakesTheTightestGap) {
  std::vector<Interval> intervals{
      {640, 0, 0},  // 0, dead later: leaves a gap of 640 below the next
      {576, 0, 9},  // 640
      {512, 0, 0},  // 1216: leaves a gap of 512 below the next
      {448, 0, 9},  // 1728
      {384, 5, 9},  // 1216: fits both gaps, this one is tighter
  };
  ArenaPlan plan = plan_arena(intervals);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 640, 1216, 1728, 1216}));
  expect_sound(intervals, plan);
}

// Offsets by the rule itself, each interval against all that were placed before it.
std::vector<int64_t> offsets_one_by_one(const std::vector<Interval>& intervals) {
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; });
  std::vector<int64_t> offsets(intervals.size(), 0);
  std::vector<int> placed;
  for (int i : order) {
    const int64_t size = (intervals[i].bytes + 63) / 64 * 64;
    if (size == 0) continue;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (int other : placed)
      if (intervals[other].first <= intervals[i].last && intervals[i].first <= intervals[other].last)
        taken.emplace_back(offsets[other], offsets[other] + (intervals[other].bytes + 63) / 64 * 64);
    std::sort(taken.begin(), taken.end());
    int64_t cursor = 0, best = -1, gap_of_best = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - cursor >= size && (best < 0 || begin - cursor < gap_of_best)) {
        best = cursor;
        gap_of_best = begin - cursor;
      }
      cursor = std::max(cursor, end);
    }
    offsets[i] = best < 0 ? cursor : best;
    placed.push_back(i);
  }
  return offsets;
}

TEST(ArenaPlan, PlacesWhereTheRuleSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto length = static_cast<int64_t>(1 + random() % 300);
    std::vector<Interval> intervals(1 + random() % 120);
    for (Interval& interval : intervals) {
      interval.first = static_cast<int64_t>(random()) % length;
      const int64_t longest =
          random() % 4 == 0 ? length - interval.first : std::min<int64_t>(8, length - interval.first);
      interval.last = interval.first + static_cast<int64_t>(random()) % longest;
      interval.bytes = static_cast<int64_t>(random() % 12) * 48;
    }
    ASSERT_EQ(plan_arena(intervals).offsets, offsets_one_by_one(intervals)) << "round " << round;
  }
}

// What training makes: what the forward pass leaves for the backward pass, the first made is the last used.
TEST(ArenaPlan, NestedIntervalsTakeLittleTime) {
  constexpr int kDepth = 200000;
  std::vector<Interval> intervals;
  for (int i = 0; i < kDepth; ++i) intervals.push_back({64 + 64 * (i % 3), i, 2 * kDepth - i});
  const ArenaPlan plan = plan_arena(intervals);  // minutes when each is compared with all others
  EXPECT_EQ(plan.arena_bytes, plan.peak_bytes);
}

TEST(ArenaPlan, EmptyAndZeroSizedIntervalsNeedNothing) {
  EXPECT_EQ(plan_arena({}).arena_bytes, 0);
  EXPECT_EQ(plan_arena({{0, 0, 5}}).arena_bytes, 0);
}

TEST(ArenaPlan, IsSoundOnRandomIntervals) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    std::vector<Interval> intervals;
    for (int i = 0; i < 150; ++i) {
      int64_t first = random() % 1000;
      intervals.push_back({static_cast<int64_t>(random() % 5000), first,
                           first + static_cast<int64_t>(random() % (i % 10 == 0 ? 900 : 20))});
    }
    expect_sound(intervals, plan_arena(intervals));
  }
}

}  // namespace
}  // namespace ipu::lowering
