// Greedy by size: the largest interval first, each at the lowest gap that fits best among the intervals
// already placed that live at the same time (Pisarchyk and Lee, "Efficient memory management for deep neural
// net inference", 2020). Weak where many small long-lived intervals come late: they fill gaps, never move
// anything.
#include "lowering/arena_plan.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/interruption.h"

namespace ipu::lowering {
namespace {

constexpr int64_t kAlignment = 64;
int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Placed intervals by time: a tree over positions would be O(log n) in all cases; buckets of positions are
// enough, as most intervals are short and the long ones are few.
class Timeline {
 public:
  explicit Timeline(int64_t length)
      : width_(std::max<int64_t>(1, length / 256)), buckets_(length / width_ + 1) {}
  void add(int i, const Interval& interval) {
    if (interval.last / width_ - interval.first / width_ > 32) {
      long_.push_back(i);
      return;
    }
    for (int64_t b = interval.first / width_; b <= interval.last / width_; ++b) buckets_[b].push_back(i);
  }
  template <typename Visit>
  void for_each_candidate(const Interval& interval, Visit visit) const {
    for (int i : long_) visit(i);
    for (int64_t b = interval.first / width_; b <= interval.last / width_; ++b)
      for (int i : buckets_[b]) visit(i);
  }

 private:
  int64_t width_;
  std::vector<std::vector<int>> buckets_;
  std::vector<int> long_;
};

void find_peak(const std::vector<Interval>& intervals, ArenaPlan& plan) {
  struct Event {
    int64_t at, bytes;
  };
  std::vector<Event> events;
  for (const Interval& interval : intervals) {
    events.push_back({interval.first, interval.bytes});
    events.push_back({interval.last + 1, -interval.bytes});
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.bytes < b.bytes; });
  int64_t now = 0, peak_at = 0;
  for (const Event& event : events) {
    now += event.bytes;
    if (now > plan.peak_bytes) {
      plan.peak_bytes = now;
      peak_at = event.at;
    }
  }
  for (size_t i = 0; i < intervals.size(); ++i)
    if (intervals[i].bytes > 0 && intervals[i].first <= peak_at && peak_at <= intervals[i].last)
      plan.live_at_peak.push_back(static_cast<int>(i));
}

}  // namespace

ArenaPlan plan_arena(const std::vector<Interval>& intervals) {
  ArenaPlan plan;
  plan.offsets.assign(intervals.size(), 0);
  int64_t length = 0;
  for (const Interval& interval : intervals) {
    IPU_CHECK(interval.bytes >= 0 && interval.first >= 0 && interval.first <= interval.last,
              "malformed interval");
    length = std::max(length, interval.last + 1);
  }
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return intervals[a].bytes > intervals[b].bytes; });

  Timeline placed(length);
  std::vector<std::pair<int64_t, int64_t>> taken;  // offset, end
  for (int i : order) {
    poll_interruption();
    const Interval& mine = intervals[i];
    if (mine.bytes == 0) continue;
    taken.clear();
    placed.for_each_candidate(mine, [&](int other) {
      const Interval& theirs = intervals[other];
      if (theirs.first <= mine.last && mine.first <= theirs.last)
        taken.emplace_back(plan.offsets[other], plan.offsets[other] + rounded(theirs.bytes));
    });
    std::sort(taken.begin(), taken.end());
    const int64_t size = rounded(mine.bytes);
    int64_t cursor = 0, best = -1, best_gap = 0;
    for (const auto& [begin, end] : taken) {
      int64_t gap = begin - cursor;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = cursor;
        best_gap = gap;
      }
      cursor = std::max(cursor, end);
    }
    if (best < 0) best = cursor;
    plan.offsets[i] = best;
    plan.arena_bytes = std::max(plan.arena_bytes, best + size);
    placed.add(i, mine);
  }
  find_peak(intervals, plan);
  return plan;
}

}  // namespace ipu::lowering
