#include "lowering/arena_plan.h"

#include <gtest/gtest.h>

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
