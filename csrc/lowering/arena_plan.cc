// Greedy by size: the largest interval first, each at the lowest gap that fits best among the intervals
// already placed that live at the same time (Pisarchyk and Lee, "Efficient memory management for deep neural
// net inference", 2020). Weak where many small long-lived intervals come late: they fill gaps, never move
// anything.
#include "lowering/arena_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "support/error.h"
#include "support/interruption.h"

namespace ipu::lowering {
namespace {

constexpr int64_t kAlignment = 64;
int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

using Range = std::pair<int64_t, int64_t>;  // offset, end

// Disjoint ranges of bytes in order; ranges that touch are one.
class TakenBytes {
 public:
  void add(Range range) {
    auto first = std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                                  [](const Range& r, int64_t begin) { return r.second < begin; });
    auto last = first;
    for (; last != ranges_.end() && last->first <= range.second; ++last) {
      range.first = std::min(range.first, last->first);
      range.second = std::max(range.second, last->second);
    }
    if (first == last) {
      ranges_.insert(first, range);
    } else {
      *first = range;
      ranges_.erase(first + 1, last);
    }
  }
  void append_to(std::vector<Range>& list) const { list.insert(list.end(), ranges_.begin(), ranges_.end()); }

 private:
  std::vector<Range> ranges_;
};

// Which bytes are taken at which positions: a tree over positions. A node knows the bytes of intervals that
// cover it whole (`here_`), and of those that lie in it anywhere (`below_`). Bytes of intervals that live
// together lie side by side mostly, so a node has few ranges, however many intervals it stands for.
class Timeline {
 public:
  explicit Timeline(int64_t length)
      : leaves_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, length)))) {
    here_.resize(2 * leaves_);
    below_.resize(2 * leaves_);
  }
  void add(const Interval& interval, Range bytes) {
    for_each_node(interval, [&](size_t node) {
      here_[node].add(bytes);
      for (; node > 0; node /= 2) below_[node].add(bytes);
    });
  }
  // All ranges taken at some position of the interval, in no order; a range may come several times.
  void collect(const Interval& interval, std::vector<Range>& taken) const {
    for_each_node(interval, [&](size_t node) {
      below_[node].append_to(taken);
      for (node /= 2; node > 0; node /= 2) here_[node].append_to(taken);
    });
  }

 private:
  // The fewest nodes that make up the interval: two a level at most.
  template <typename Visit>
  void for_each_node(const Interval& interval, Visit visit) const {
    size_t from = leaves_ + static_cast<size_t>(interval.first);
    size_t to = leaves_ + static_cast<size_t>(interval.last) + 1;
    for (; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) visit(from++);
      if (to % 2 == 1) visit(--to);
    }
  }

  size_t leaves_;
  std::vector<TakenBytes> here_, below_;  // node n has the children 2n and 2n + 1; 1 is the root
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
  std::vector<Range> taken;
  for (int i : order) {
    poll_interruption();
    const Interval& mine = intervals[i];
    if (mine.bytes == 0) continue;
    taken.clear();
    placed.collect(mine, taken);
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
    placed.add(mine, {best, best + size});
  }
  find_peak(intervals, plan);
  return plan;
}

}  // namespace ipu::lowering
